"""Tables of the terminal."""

from marl.analysis.tables import display_width, padded, print_rows


def test_a_chinese_letter_takes_two_columns_and_an_accent_none():
    assert [display_width(text) for text in ("level1", "李四", "Ａ", "e\u0301", "")] == [6, 4, 2, 1, 0]


def test_rows_line_up_whatever_the_letters(capsys):
    print_rows([("name", "won"), ("李四", "5"), ("e\u0301va", "100")], right=(1,))
    assert capsys.readouterr().out == "name  won\n李四    5\ne\u0301va   100\n"
    assert padded("李四", 6, right=True) == "  李四"
