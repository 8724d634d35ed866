"""The formula language of docs/kernel-toml.md. `src/project/formula.rs` is the one that counts; this reads the same."""

import math
import operator
import re

SIZES = {"f32": 4, "f16": 2, "bf16": 2, "i32": 4, "i64": 8}
TOKEN = re.compile(r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<word>[A-Za-z_]\w*)|(?P<sign>==|!=|<=|>=|[-+*/%<>(),]))")
COMPARE = {"==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
SUM = {"+": operator.add, "-": operator.sub}
# `%` has the sign of its left side, as in C.
PRODUCT = {"*": operator.mul, "/": operator.truediv, "%": math.fmod}


class FormulaError(ValueError):
    """A formula that cannot be read or has no value; the text names it."""


class Formula:
    """`eval(names, T)` is a float; `names` are those it uses, in order."""

    def __init__(self, text):
        self.text = str(text)
        self.tokens, at, text = [], 0, self.text.rstrip()
        while at < len(text):
            found = TOKEN.match(text, at)
            if not found:
                raise FormulaError(f"formula `{self.text}`: what is `{text[at:].strip()}`?")
            self.tokens.append((found.lastgroup, found.group(found.lastgroup)))
            at = found.end()
        self.tokens.append(("end", ""))
        self.at, self.names = 0, []
        self.root = self.comparison()
        if self.peek() != "":
            self.fail("an operator or the end")
        del self.tokens

    def eval(self, names, dtype):
        try:
            value = float(self.root(names, dtype))
        except KeyError as error:
            raise FormulaError(f"formula `{self.text}`: {error} has no value") from error
        except (ZeroDivisionError, ValueError, OverflowError) as error:
            raise FormulaError(f"formula `{self.text}`: {error}") from error
        if not math.isfinite(value):
            raise FormulaError(f"formula `{self.text}`: the value overflows a double")
        return value

    def integer(self, names, dtype):
        value = self.eval(names, dtype)
        if value != math.floor(value) or abs(value) > 2**53:
            raise FormulaError(f"formula `{self.text}` gives {value}, which is no exact integer")
        return int(value)

    def peek(self):
        return self.tokens[self.at][1]

    def take(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def fail(self, expected):
        raise FormulaError(f"formula `{self.text}`: expected {expected}, found `{self.peek() or 'the end'}`")

    def expect(self, sign):
        if self.peek() != sign:
            self.fail(f"`{sign}`")
        self.take()

    def comparison(self):
        left = self.binary(SUM, lambda: self.binary(PRODUCT, self.signed))
        if self.peek() not in COMPARE:
            return left
        compare = COMPARE[self.take()[1]]
        right = self.binary(SUM, lambda: self.binary(PRODUCT, self.signed))
        if self.peek() in COMPARE:
            self.fail("no second comparison: they do not chain")
        return lambda names, t: float(compare(left(names, t), right(names, t)))

    def binary(self, operators, operand):
        left = operand()
        while self.peek() in operators:
            left = self.applied(operators[self.take()[1]], left, operand())
        return left

    @staticmethod
    def applied(function, left, right):
        return lambda names, t: function(left(names, t), right(names, t))

    def signed(self):
        if self.peek() == "-":
            self.take()
            inner = self.signed()
            return lambda names, t: -inner(names, t)
        return self.operand()

    def operand(self):
        kind, text = self.tokens[self.at]
        if text == "(":
            self.take()
            inner = self.comparison()
            self.expect(")")
            return inner
        if kind == "number":
            self.take()
            value = float(text)
            return lambda names, t: value
        if kind != "word":
            self.fail("a number, a name, a function or `(`")
        self.take()
        if text in ("min", "max", "ceil_div", "size"):
            return self.call(text)
        self.names.append(text)
        return lambda names, t: names[text]

    def call(self, name):
        self.expect("(")
        if name == "size":
            of = self.take()[1]
            if of != "T" and of not in SIZES:
                self.fail(f"T or one of {', '.join(SIZES)}")
            self.expect(")")
            return lambda names, t: float(SIZES[t if of == "T" else of])
        given = [self.comparison()]
        while self.peek() == ",":
            self.take()
            given.append(self.comparison())
        self.expect(")")
        if name == "ceil_div":
            if len(given) != 2:
                raise FormulaError(f"formula `{self.text}`: ceil_div takes two")
            return lambda names, t: ceil_div(given[0](names, t), given[1](names, t))
        choose = min if name == "min" else max
        return lambda names, t: choose(part(names, t) for part in given)


def ceil_div(left, right):
    if right <= 0:
        raise ValueError(f"ceil_div by {right}, which is not positive")
    # Through the remainder: the quotient alone can round up to the next integer.
    rest = left % right
    return round((left - rest) / right) + (rest != 0)
