"""The modules of the policy: the built-in texts, and the root's own in `{home}/policy/*.rego`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from brokerd.policy import lint
from brokerd.watch import Content
from proto.canon import canonical, digest
from proto.escape import escape

SUFFIX: Final = ".rego"
LARGEST_MODULE_BYTES: Final = 1 << 17
MOST_MODULES_BYTES: Final = 1 << 19
"""All of them are shown in one frame."""
ROOT: Final = "boxmaker.root"
REPLACEABLE: Final = ("boxmaker.tool", "boxmaker.egress")
_FOLDER: Final = Path(__file__).parent


class Module(msgspec.Struct, frozen=True):
    """A Rego module: its name in messages, where it comes from, its text, and why it is left out, if so."""

    name: str
    origin: Literal["built-in", "root"]
    text: str
    problem: str | None = None


class ModulesError(Exception):
    """The root's modules cannot make a policy; the message says which and why."""


def built_in() -> tuple[Module, ...]:
    """The built-in policy."""
    names = ("tool.rego", "egress.rego")
    return tuple(Module(f"built-in/{name}", "built-in", (_FOLDER / name).read_text(encoding="utf-8")) for name in names)


def root_modules(contents: Mapping[str, Content]) -> tuple[Module, ...]:
    """The root's own modules as texts, readable or not: one that is not has its problem."""
    return tuple(
        _root_module(f"policy/{escape(name)}" if name.endswith(SUFFIX) else f"{name}/", content)
        for name, content in contents.items()
    )


def compose(root: tuple[Module, ...]) -> tuple[Module, ...]:
    """The policy that the built-in and the root's own modules make: those in force, and those left out with the reason.

    Raises:
        ModulesError: one cannot be read, or would have no effect where it stands.

    """
    if sum(len(module.text.encode()) for module in root) > MOST_MODULES_BYTES:
        raise ModulesError(f"policy/: more than {MOST_MODULES_BYTES} bytes")
    packages: dict[str, str] = {}
    for module in root:
        if module.problem:
            raise ModulesError(module.problem)
        package = _package(module)
        packages.setdefault(package, module.name)
    _check_effect(root, packages)
    kept = []
    for module in built_in():
        by = packages.get("boxmaker." + module.name.removeprefix("built-in/").removesuffix(".rego"))
        kept.append(msgspec.structs.replace(module, problem=f"{by} stands in its place") if by else module)
    return (*kept, *root)


def in_force(modules: tuple[Module, ...]) -> list[tuple[str, str]]:
    """Names and texts of the modules that are not left out."""
    return [(module.name, module.text) for module in modules if module.problem is None]


def digest_of(modules: tuple[Module, ...]) -> str:
    """What names a policy in the audit log: the SHA-256 of its modules' names and texts."""
    return digest(canonical([list(pair) for pair in in_force(modules)]))


def _root_module(name: str, content: Content) -> Module:
    if isinstance(content, OSError):
        return Module(name, "root", "", f"{name}: cannot be read: {content.strerror or content}")
    try:
        return Module(name, "root", content.decode())
    except UnicodeDecodeError:
        return Module(name, "root", "", f"{name}: not UTF-8")


def _package(module: Module) -> str:
    try:
        package = lint.read(module.name, module.text).package
    except lint.LintError as error:
        raise ModulesError(str(error)) from None
    if package in (ROOT, *REPLACEABLE) or package.startswith(f"{ROOT}."):
        return package
    allowed = ", ".join((ROOT, f"{ROOT}.…", *REPLACEABLE))
    raise ModulesError(f"{module.name}: the package {package} is read by nothing; it must be one of {allowed}")


def _check_effect(root: tuple[Module, ...], packages: Mapping[str, str]) -> None:
    """A root package that says neither `deny` nor `ask` is a spelling mistake, and would silently deny nothing."""
    if not packages or any(package in packages for package in REPLACEABLE):
        return
    heads: set[str] = set()
    for module in root:
        source = lint.read(module.name, module.text)
        if source.package == ROOT:
            heads |= {token.text for token in source.tokens if token.kind == "word"}
    if not heads & {"deny", "ask"}:
        raise ModulesError(f"{next(iter(packages.values()))}: {ROOT} has neither deny nor ask, so it decides nothing")
