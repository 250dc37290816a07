"""The policy in force: the last that loaded, noticed anew when the root's modules change, asked one question at a time.

A root whose modules do not load at the first try denies everything; after a good load the last good policy stays
(contract, "Policy"). Modules load in a second worker, which takes the place of the first once it has answered: what is
large holds no decision up for long. Each listener that decides has one of these, with a worker of its own.

An answer is kept for as long as its policy is in force: asked the same again, the worker would say the same.
"""

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import msgspec

from brokerd.policy import modules, verdict
from brokerd.policy.modules import Module, ModulesError
from brokerd.policy.narrow import Narrow
from brokerd.policy.process import LoadRefused, Worker, WorkerLost
from brokerd.policy.verdict import Verdict
from brokerd.watch import Content, Watched
from proto.messages.broker import PolicyModule, PolicyShowReply
from proto.role.log import logger

_TRY_AGAIN_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 3.0
"""How long, from the first question that found the modules changed, questions wait for them; then the last good policy
answers. Most load in a tenth of that, and are in force for the first question after they were written."""
_MOST_KEPT: Final = 1_000
_LONGEST_KEPT_BYTES: Final = 4_000
"""Of an input whose answer is kept; the usual one has a few hundred."""
NO_POLICY: Final = "none"
"""What stands for the digest where there is no policy."""
_packed: Final = msgspec.msgpack.Encoder()


class Answer(msgspec.Struct, frozen=True):
    """A verdict, and the digest of the policy that gave it."""

    verdict: Verdict
    policy: str


class _Question(NamedTuple):
    """A narrowed input, and what its answer is kept by."""

    term: Mapping[str, Any]
    key: tuple[str, bytes]


class _Kept:
    """The answers of one policy that were given, by entry point and narrowed input; of too many, the oldest goes."""

    def __init__(self, narrow: Narrow) -> None:
        self._narrow = narrow
        self._verdicts: dict[tuple[str, bytes], Verdict] = {}

    def question(self, entrypoint: str, term: Mapping[str, Any]) -> _Question:
        narrowed = self._narrow(term)
        # MessagePack tells 1, 1.0 and true apart as JSON does, and is written in a fraction of the time.
        return _Question(narrowed, (entrypoint, _packed.encode(narrowed)))

    def get(self, question: _Question) -> Verdict | None:
        return self._verdicts.get(question.key)

    def put(self, question: _Question, found: Verdict) -> None:
        if not self._narrow.lasting or found == verdict.INVALID or len(question.key[1]) > _LONGEST_KEPT_BYTES:
            return
        if len(self._verdicts) >= _MOST_KEPT:
            del self._verdicts[next(iter(self._verdicts))]
        self._verdicts[question.key] = found


class Policy:
    """The policy in force and its worker. It loads in `run`, beside the questions."""

    def __init__(self, home: Path, timeout_s: float, trials: Mapping[str, Mapping[str, Any]]) -> None:
        """`trials` holds for each entry point an input that any working policy answers."""
        self._watched = Watched(home / "policy", modules.SUFFIX, modules.LARGEST_MODULE_BYTES)
        self._timeout_s = timeout_s
        self._trials = dict(trials)
        self._lock = anyio.Lock()
        self._worker: Worker | None = None
        self._good: tuple[Module, ...] | None = None
        self._kept = _Kept(Narrow(()))
        self._digest = NO_POLICY
        self._contents: Mapping[str, Content] | None = None
        self._root: tuple[Module, ...] = ()
        """The root's modules as `_contents` has them."""
        self._tried: tuple[Module, ...] | None = None
        self._try_again = math.inf
        self._problem: str | None = None
        self._found_s: float | None = None
        self._wanted = anyio.Event()
        self._loaded = anyio.Event()

    async def run(self) -> None:
        """Load, and load again whenever a question finds the modules changed; until cancelled."""
        self._wanted.set()
        try:
            while True:
                await self._wanted.wait()
                self._wanted = anyio.Event()
                while (root := self._changed()) is not None:
                    await self._load(root)
                self._loaded.set()
                self._loaded = anyio.Event()
        finally:
            with anyio.CancelScope(shield=True):
                await self._end()

    def at_once(self, entrypoint: str, term: Mapping[str, Any]) -> Answer | None:
        """What `ask` says without waiting: the modules are as they were, and the answer is kept; else None."""
        if not self._is_up_to_date():
            return None
        found = self._kept.get(self._kept.question(entrypoint, term))
        return None if found is None else Answer(found, self._digest)

    async def ask(self, entrypoint: str, term: Mapping[str, Any]) -> Answer:
        """What the policy says to an input; whatever goes wrong is a denial."""
        await self._up_to_date()
        kept = self._kept
        question = kept.question(entrypoint, term)
        if (found := kept.get(question)) is not None:
            return Answer(found, self._digest)
        async with self._lock:
            if self._good is None:
                return Answer(verdict.INVALID, NO_POLICY)
            policy = self._digest
            if kept is not self._kept:
                # It was loaded meanwhile, and may read other parts of the input.
                kept = self._kept
                question = kept.question(entrypoint, term)
            try:
                worker = await self._running(self._good)
                answer = await worker.ask(entrypoint, text_of(question.term), self._timeout_s)
            except (WorkerLost, LoadRefused) as error:
                self._worker = None
                logger().error("policy-worker-lost", reason=str(error))
                return Answer(verdict.INVALID, policy)
            except BaseException:
                self._worker = None
                raise
            found = verdict.read(answer)
            kept.put(question, found)
            return Answer(found, policy)

    async def show(self) -> PolicyShowReply:
        """The modules in force, those left out, and the problem that denies everything, if there is one."""
        await self._up_to_date()
        shown = [*(self._good or modules.built_in())]
        if self._problem is not None and self._tried is not None:
            note = self._problem if self._good is None else f"{self._problem}; the last good policy stays"
            shown = [module for module in shown if module.origin == "built-in"]
            shown += [msgspec.structs.replace(module, problem=module.problem or note) for module in self._tried]
        rows = [
            PolicyModule(name=module.name, origin=module.origin, text=module.text, problem=module.problem)
            for module in shown
        ]
        return PolicyShowReply(modules=rows, problem=self._problem if self._good is None else None)

    def _changed(self) -> tuple[Module, ...] | None:
        """The root's modules, if they are to be loaded."""
        contents = self._watched.read()
        if contents is not self._contents:
            self._contents, self._root = contents, modules.root_modules(contents)
        return None if self._root == self._tried and time.monotonic() < self._try_again else self._root

    def _is_up_to_date(self) -> bool:
        """Whether what the files say now was tried."""
        if self._changed() is not None:
            return False
        self._found_s = None
        return True

    async def _up_to_date(self) -> None:
        """Wait until what the files say now was tried; once there is a good policy, only so long as decisions can."""
        if self._is_up_to_date():
            return
        now = anyio.current_time()
        self._found_s = found_s = now if self._found_s is None else self._found_s
        with anyio.move_on_after(math.inf if self._good is None else found_s + _PATIENCE_SECONDS - now):
            while self._changed() is not None:
                self._wanted.set()
                await self._loaded.wait()
            self._found_s = None

    async def _load(self, root: tuple[Module, ...]) -> None:
        """Try modules; what was in force answers meanwhile, and stays when they are no policy."""
        problem, try_again = None, math.inf
        try:
            composed = await anyio.to_thread.run_sync(modules.compose, root)
            worker = await self._started(composed)
        except (ModulesError, LoadRefused) as error:
            problem = str(error)
        except WorkerLost as error:
            problem = f"the policy cannot be loaded: {error}"
            try_again = time.monotonic() + _TRY_AGAIN_SECONDS
        except Exception as error:  # noqa: BLE001  (what no check foresaw is no policy either)
            logger().exception("policy-unreadable")
            problem = f"the policy cannot be loaded: {type(error).__name__}"
        else:
            async with self._lock:
                await self._end()
                self._worker, self._good = worker, composed
                self._kept = _Kept(Narrow(modules.in_force(composed)))
                self._digest = modules.digest_of(composed)
            logger().info("policy-loaded", policy=self._digest, modules=len(composed), worker=worker.pid)
        self._tried, self._try_again, self._problem = root, try_again, problem
        if problem is not None:
            logger().error("policy-invalid", reason=problem, last_good_stays=self._good is not None)

    async def _end(self) -> None:
        if self._worker is not None:
            await self._worker.end()
            self._worker = None

    async def _running(self, good: tuple[Module, ...]) -> Worker:
        if self._worker is None:
            self._worker = await self._started(good)
        return self._worker

    async def _started(self, composed: tuple[Module, ...]) -> Worker:
        """A worker that has loaded modules and answers each trial.

        Raises:
            LoadRefused: it does not load or does not answer.
            WorkerLost: it ended.

        """
        worker = await Worker.start(modules.in_force(composed))
        for entrypoint, term in self._trials.items():
            if verdict.read(await worker.ask(entrypoint, text_of(term), self._timeout_s)) == verdict.INVALID:
                await worker.end()
                raise LoadRefused(f"data.{entrypoint.replace('/', '.')} is not an answer: see the built-in policy")
        return worker


def text_of(term: Mapping[str, Any]) -> str:
    """An input as the JSON text that the engine takes."""
    return json.dumps(term, ensure_ascii=False)
