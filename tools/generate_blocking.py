"""Write src/rowlock/blocking/broker.py, the library without async, from src/rowlock/embedded.py.

Every public method and property of `Broker` and `ClaimedMessage` gets a twin of the same signature and docstring that
runs it on the broker's event loop. What is a claimed message there is one here, in arguments and results.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/rowlock/embedded.py"
TARGET = ROOT / "src/rowlock/blocking/broker.py"
LIFE = ("open", "close")
"""Written by hand below: they begin and end the loop."""

HEAD = '''\
"""The library without async, written by tools/generate_blocking.py from embedded.py: `make generate` writes it anew."""

from __future__ import annotations

{imports}
from typing import Self
from rowlock import embedded
from rowlock.blocking.loop import LoopThread


class ClaimedMessage:
    """{message_says}"""

    __slots__ = ("_loop", "_message")

    def __init__(self, loop: LoopThread, message: embedded.ClaimedMessage):
        self._loop = loop
        self._message = message

{message_methods}

    def __repr__(self) -> str:
        return repr(self._message)


class Broker:
    """All of Rowlock, on one database, for any number of threads. Open it with `rowlock.blocking.open`."""

{init}

    def open(self) -> Self:
        try:
            self._loop.run(self._broker.open())
        except BaseException:
            self._loop.stop()
            raise
        return self

    def close(self) -> None:
        """Carry what has been asked for, then let everything go. It may be called again."""
        try:
            if not self._loop.stopped:
                self._loop.run(self._broker.close())
        finally:
            self._loop.stop()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

{broker_methods}

    def _ours(self, messages: list[embedded.ClaimedMessage]) -> list[ClaimedMessage]:
        return [ClaimedMessage(self._loop, one) for one in messages]

    def _give_back(self, messages: list[embedded.ClaimedMessage]) -> None:
        """Their caller was interrupted and never saw them."""
        self._broker._engine.give_back([one._claimed for one in messages])


{open}


def _batch(messages: Iterable[Message | bytes] | Message | bytes) -> list[Message | bytes]:
    """A generator runs in its caller's thread, and not on the loop."""
    return [messages] if isinstance(messages, (Message, bytes)) else list(messages)


def _theirs(messages: Iterable[ClaimedMessage | str]) -> list[embedded.ClaimedMessage | str]:
    return [one if isinstance(one, str) else one._message for one in messages]
'''

Method = ast.FunctionDef | ast.AsyncFunctionDef


def generated() -> str:
    """The text of the module."""
    module = ast.parse(SOURCE.read_text())
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    message, broker = classes["ClaimedMessage"], classes["Broker"]
    init = next(one for one in broker.body if isinstance(one, ast.FunctionDef) and one.name == "__init__")
    opening = next(one for one in module.body if isinstance(one, ast.FunctionDef) and one.name == "open")
    text = HEAD.format(
        imports=_imports(module),
        message_says=ast.get_docstring(message),
        message_methods="\n\n".join(_twin(one, "_message") for one in _public(message)),
        init=_indented(
            f"{_signature(init)}\n    self._broker = embedded.Broker({_passed(init)})\n    self._loop = LoopThread()"
        ),
        broker_methods="\n\n".join(_twin(one, "_broker") for one in _public(broker)),
        open=f"{_signature(opening)}\n{_says(opening)}    return Broker({_passed(opening)})",
    )
    return _tidy(text)


def _imports(module: ast.Module) -> str:
    """All that embedded.py imports; what is not used here goes when the text is tidied."""
    found = [one for one in module.body if isinstance(one, (ast.Import, ast.ImportFrom))]
    return "\n".join(ast.unparse(one) for one in found if ast.unparse(one) != "from __future__ import annotations")


def _public(of: ast.ClassDef) -> list[Method]:
    methods = [one for one in of.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [one for one in methods if not one.name.startswith("_") and one.name not in LIFE]


def _twin(method: Method, inner: str) -> str:
    if not isinstance(method, ast.AsyncFunctionDef):
        decorators = "".join(f"@{ast.unparse(one)}\n" for one in method.decorator_list)
        assert decorators == "@property\n", f"{method.name}: only properties and async methods have twins"
        return _indented(f"{decorators}{_signature(method)}\n{_says(method)}    return self.{inner}.{method.name}")
    call = f"self.{inner}.{method.name}({_passed(method)})"
    returns = ast.unparse(method.returns) if method.returns else ""
    if returns == "list[ClaimedMessage]":
        result = f"return self._ours(self._loop.run({call}, self._give_back))"
    else:
        result = f"{'' if returns == 'None' else 'return '}self._loop.run({call})"
    return _indented(f"{_signature(method)}\n{_says(method)}    {result}")


def _signature(method: Method) -> str:
    return f"def {method.name}({ast.unparse(method.args)}) -> {ast.unparse(method.returns or ast.Constant(None))}:"


def _says(method: Method) -> str:
    says = ast.get_docstring(method, clean=False)
    return f'    """{says}"""\n' if says else ""


def _passed(method: Method) -> str:
    """The arguments of a method, as its twin passes them on."""
    arguments = [one for one in [*method.args.posonlyargs, *method.args.args] if one.arg != "self"]
    passed = [_value(one) for one in arguments]
    passed += [f"{one.arg}={_value(one)}" for one in method.args.kwonlyargs]
    if method.args.kwarg:
        passed.append(f"**{method.args.kwarg.arg}")
    return ", ".join(passed)


def _value(argument: ast.arg) -> str:
    annotation = ast.unparse(argument.annotation) if argument.annotation else ""
    if "ClaimedMessage" in annotation:
        return f"_theirs({argument.arg})"
    return f"_batch({argument.arg})" if annotation.startswith("Iterable") else argument.arg


def _indented(text: str) -> str:
    first, *rest = text.split("\n")
    # A docstring's further lines have the indentation of their source already.
    return "\n".join([f"    {first}", *(_deeper(line) for line in rest)])


def _deeper(line: str) -> str:
    return f"    {line}" if line else line


def _tidy(text: str) -> str:
    for command in (["check", "--fix", "--exit-zero", "--select=F401,F811,I"], ["format"]):
        arguments = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(TARGET), "-"]
        text = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


if __name__ == "__main__":
    TARGET.write_text(generated())
