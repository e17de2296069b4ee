"""When Python looks for garbage, in processes of their own: the rules are those of a whole process."""

from helpers.command import in_fresh_process

from marl import garbage


def run(code: str) -> list[str]:
    return in_fresh_process("import gc\nfrom marl import garbage\n" + code).split()


def test_a_command_searches_first_after_all_is_loaded_and_more_often_from_then_on() -> None:
    code = """
garbage.search_less()
print(gc.get_threshold()[0])
gc.collect()
print(gc.get_threshold()[0], len(gc.callbacks))
gc.collect()
print(gc.get_threshold()[0])
"""
    assert run(code) == [str(garbage.WHILE_LOADING), str(garbage.AFTERWARDS), "0", str(garbage.AFTERWARDS)]


def test_garbage_is_still_found() -> None:
    code = """
import weakref
class Node: pass
garbage.search_less()
garbage.keep_what_is_loaded()
node = Node()
node.itself, gone = node, weakref.ref(node)
del node
nodes = [[] for _ in range(2 * garbage.WHILE_LOADING)]
print(gone() is None)
"""
    assert run(code) == ["True"]


def test_what_is_loaded_is_kept_once_and_only_by_a_command() -> None:
    code = """
before = gc.get_freeze_count()  # Python 3.12 and later may begin with some
garbage.keep_what_is_loaded()
print(gc.get_freeze_count() - before)
garbage.search_less()
garbage.keep_what_is_loaded()
kept = gc.get_freeze_count() - before
more = [[] for _ in range(1000)]
garbage.keep_what_is_loaded()
print(kept > 0, gc.get_freeze_count() - before == kept)
"""
    assert run(code) == ["0", "True", "True"]
