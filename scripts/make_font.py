"""Makes the font for Chinese names in pictures and in the window: the characters of GB 2312 out of Noto Sans CJK SC.

    apt-get download fonts-noto-cjk && dpkg-deb -x fonts-noto-cjk_*.deb noto && pip install fonttools
    python scripts/make_font.py noto/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc

Writes arena/render/noto_sans_sc.otf. The font's licence is beside it, arena/render/noto_sans_sc_OFL.txt.
"""

from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTCollection
from script_parser import ScriptParser

FONT = Path(__file__).resolve().parent.parent / "arena" / "render" / "noto_sans_sc.otf"
NAMES = [0, 1, 2, 3, 4, 5, 6, 13, 14]  # copyright, family, style, identity, names, version, licence: the OFL wants them


def main() -> None:
    parser = ScriptParser(__doc__)
    parser.add_argument("collection", type=Path, help="NotoSansCJK-Regular.ttc")
    fonts = TTCollection(parser.parse_args().collection, lazy=True).fonts
    font = next(each for each in fonts if each["name"].getDebugName(4) == "Noto Sans CJK SC")
    # A line of text needs neither hints nor other forms of its letters, and no columns of letters.
    options = subset.Options(hinting=False, layout_features=[], name_IDs=NAMES, notdef_outline=True)
    options.drop_tables += ["BASE", "GPOS", "GSUB", "VORG", "vhea", "vmtx"]
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=characters())
    subsetter.subset(font)
    font.save(FONT)


def characters() -> str:
    """Letters of Western languages, and GB 2312: 6,763 Chinese characters, punctuation, Greek, Cyrillic, kana."""
    western = "".join(map(chr, (*range(0x20, 0x7F), *range(0xA0, 0x180), *range(0x2010, 0x2027), 0x2212)))
    codes = (bytes((row, column)) for row in range(0xA1, 0xF8) for column in range(0xA1, 0xFF))
    return western + "".join(code.decode("gb2312", errors="ignore") for code in codes)


if __name__ == "__main__":
    main()
