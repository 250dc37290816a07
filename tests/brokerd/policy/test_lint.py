"""Every call in a module is known before it loads: a function that regopy has not would be silently undefined."""

import pytest

from brokerd.policy import lint, modules
from brokerd.policy.engine import Engine, EngineError

HEAD = "package boxmaker.root\n\nimport rego.v1\n\n"


def _load(*bodies: str) -> Engine:
    built_in = modules.in_force(modules.built_in())
    return Engine([*built_in, *((f"policy/{i}.rego", body) for i, body in enumerate(bodies))])


@pytest.mark.parametrize(
    "call",
    [
        'net.cidr_contains("10.0.0.0/8", "10.0.0.1")',
        'net.cidr_overlap("10.0.0.0/8", "10.0.0.1")',
        'net.lookup_ip_addr("example.org")',
        'http.send({"method": "get", "url": "http://example.org"})',
        "json.match_schema({}, {})",
        'graphql.is_valid("{}", "{}")',
        'rego.parse_module("a", "b")',
        're_match("a", "b")',
        'cast_array("a")',
        "any([true])",
        "all([true])",
        'time.parse_rfc3339_ns("2026-01-01T00:00:00Z") > 0',
        "opa.runtime() == 1",
        "nowhere(1)",
        "1+nowhere(1) > 1",
        "1-nowhere.x(1) > 1",
        "some.where(1)",
        "data.somewhere.f(1)",
        "net . cidr_contains (1, 2)",
        "net.\n\tcidr_contains(1, 2)",
        "net.cidr_contains\n\t(1, 2)",
        'data["net"]["f"](1)',
        "net.cidr_contains( # a comment\n\t1, 2)",
    ],
)
@pytest.mark.parametrize(
    "rule",
    [
        'deny contains "host" if {call}',
        'deny contains "host" if {{\n\tinput.tool == "x"\n\tnot {call}\n}}',
        "x := [1 | {call}]\nask if x",
    ],
)
def test_a_call_to_what_is_not_there_does_not_load(call: str, rule: str) -> None:
    with pytest.raises(EngineError, match=r"policy/0\.rego"):
        _load(HEAD + rule.format(call=call) + "\n")


@pytest.mark.parametrize("name", sorted(lint.BLOCKED))
def test_a_blocked_function_cannot_be_defined_either(name: str) -> None:
    with pytest.raises(EngineError):
        _load(HEAD + f'{name}(x) := x\n\ndeny contains "host" if {name}(1)\n')


@pytest.mark.parametrize(
    "body",
    [
        'deny contains "host" if count(input.host) > 3\n',
        'deny contains "host" if endswith(input.host, ".example")\n',
        'f(x) := x + 1\n\ndeny contains "host" if f(1) == 3\n',
        'default f(_) := false\n\nf(x) if x > 2\n\ndeny contains "host" if f(1)\n',
        'deny contains "host" if {\n\tsome x in [1, 2]\n\tnot (x < 3)\n}\n',
        'deny contains "host" if glob.match("*.org", ["."], input.host)\n',
        'f(x) := y if {\n\ty := x\n}\n\ng := f(2)\n\ndeny contains "host" if g == 3\n',
        'deny contains "host" if {\n\tevery x in [1] { x == 2 }\n}\n',
        '# net.cidr_contains(1, 2)\nask if input.tool == "net.cidr_contains(1)"\n',
        "ask if input.tool == `net.cidr_contains(\n1)`\n",
        'deny contains "host" if data.boxmaker.root.f(1)\n\nf(x) if x == 2\n',
    ],
)
def test_a_module_that_calls_only_what_is_there_loads(body: str) -> None:
    _load(HEAD + body)


def test_a_helper_of_another_module_can_be_called_by_its_path_and_by_an_import() -> None:
    lib = "package boxmaker.root.lib\n\nimport rego.v1\n\nbig(x) if x > 10\n"
    _load(lib, HEAD + 'deny contains "host" if data.boxmaker.root.lib.big(3)\n')
    _load(lib, HEAD + 'import data.boxmaker.root.lib\n\ndeny contains "host" if lib.big(3)\n')
    _load(lib, HEAD + 'import data.boxmaker.root.lib.big as large\n\ndeny contains "host" if large(3)\n')
    with pytest.raises(EngineError):
        _load(lib, HEAD + 'import data.boxmaker.root.lib\n\ndeny contains "host" if lib.small(3)\n')


def test_a_continued_line_is_not_taken_for_a_definition() -> None:
    for before in ("if", "if\n\tnot", "if true ==", "if {\n\ttrue\n\tx :="):
        close = "\n}" if "{" in before else ""
        with pytest.raises(EngineError):
            _load(HEAD + f'deny contains "host" {before}\nnowhere(1){close}\n')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "m: the first statement is not a package"),
        ("import rego.v1\n", "m: the first statement is not a package"),
        ('package a\nx := "\n', "m, line 2: the sign '\"' is not read here"),
        ('package a\nx := $"{1}"\n', "m, line 2: a template string is not read here"),
        ("package a\n\nx := é\n", "m, line 3: the sign 'é' is not read here"),
    ],
)
def test_what_is_not_read_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(lint.LintError) as caught:
        lint.read("m", text)
    assert str(caught.value) == message
