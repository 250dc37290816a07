"""Law 10: a daemon fits in a head."""

from tests.shape import tree

LONGEST_FILE_LINES = 400
LONGEST_FUNCTION_LINES = 60


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {str(module.path): module.text.count("\n") for module in tree.modules()}
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST_FILE_LINES} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    lengths = {
        f"{module.path}:{function.name}": (function.end_lineno or 0) - function.lineno + 1
        for module in tree.modules()
        for function in tree.functions(module)
    }
    assert {where: lines for where, lines in lengths.items() if lines > LONGEST_FUNCTION_LINES} == {}
