"""Expressions ready to run. Compiling is done once per text and type, and shared by every server in the process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steelyard.kube import effort
from steelyard.kube.cel import checker, evaluator, loops, parser, values
from steelyard.kube.cel.problems import CompileError, EvaluationError, Problem
from steelyard.kube.cel.types import Type


@dataclass(slots=True)
class Budget:
    """What is left of the steps that the expressions of one decision may take together."""

    steps: int = 10 * loops.MOST_STEPS

    @property
    def is_spent(self) -> bool:
        return self.steps < 0


class Program:
    """Call it with the values of the variables, in the order they were declared in.

    Raises EvaluationError, and CostExceeded where it takes too long or makes too much, by itself or with what was
    evaluated before it for the same object.
    """

    __slots__ = ("_rest", "_run", "type", "variables_used")

    def __init__(self, checked: checker.Checked, variables: tuple[str, ...]) -> None:
        self.type = checked.type
        self.variables_used = checked.variables_used
        self._run, size = evaluator.compile_(checked, variables)
        self._rest = [None] * (size - 1 - len(variables))

    def __call__(self, *arguments: Any) -> Any:
        return self._evaluate([loops.MOST_STEPS, *arguments, *self._rest])

    def within(self, budget: Budget, *arguments: Any) -> Any:
        """The same, where several expressions share what they may spend. Raises CostExceeded also when that is gone."""
        steps = min(loops.MOST_STEPS, budget.steps)
        frame: loops.Frame = [steps, *arguments, *self._rest]
        budget.steps -= steps
        try:
            return self._evaluate(frame)
        finally:
            budget.steps += frame[0]

    def _evaluate(self, frame: loops.Frame) -> Any:
        try:
            with effort.LIMITED:
                return self._run(frame)
        except effort.Exhausted:
            raise loops.exceeded() from None
        except RecursionError:
            raise EvaluationError("expression is nested too deeply") from None
        except (TypeError, AttributeError, ValueError, LookupError, ArithmeticError):
            # A value that is not of the type its schema says, which only stored objects can have.
            raise values.no_overload() from None


def compile_(source: str, variables: Mapping[str, Type]) -> Program:
    """Raises CompileError.

    >>> from steelyard.kube.cel import types
    >>> compile_("self.size() > 2", {"self": types.STRING})("abc")
    True
    """
    try:
        root = parser.parse(source)
        return Program(checker.check(source, root, variables), tuple(variables))
    except RecursionError:
        raise CompileError(source, [Problem(0, "expression recursion limit exceeded: 250")]) from None
