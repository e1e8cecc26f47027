# SPDX-License-Identifier: BSD-3-Clause
"""The small changes that a line of C allows: the operators of draw.py.

mutations(text) yields a Mutation for each place in the functions of a source that clang-format has laid out. No
change adds or removes a line: the numbers of lines that log calls and assertions pass stay as they are.
"""
import re
from typing import NamedTuple

# Calls whose arguments are no behaviour: log texts, assertions, and marks that the lab reads
SILENT = re.compile(
    r"(?:WARN|INFO|TRACE|LOG_\w+|log_write|D?ASSERT|ALWAYS|NEVER|doppel_assert_fail"
    r"|OS_PROBE\w*|DOPPEL_(?:STATIC_)?CHECK\w*|static_assert|_Static_assert)$"
)
KEYWORDS = set(
    "if else for while do switch case default return break continue goto sizeof struct union enum static "
    "const void char short int long unsigned signed float double bool _Bool volatile extern inline".split()
)
TOKEN = re.compile(
    r"(?P<word>[A-Za-z_]\w*)|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)"
    r"|(?P<sign>->|\+\+|--|<<=|>>=|\.\.\.|&&|\|\||<<|>>|[-+*/%&|^<>=!]=|\S)"
)
SKIPPED = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|^[ \t]*#(?:\\\n|[^\n])*",
    re.S | re.M,
)
FUNCTION = re.compile(r"^\{\n(.*?)^\}", re.S | re.M)
SWAPS = {
    "less_or_equal": {"<": "<="},
    "less": {"<=": "<"},
    "greater_or_equal": {">": ">="},
    "greater": {">=": ">"},
    "not_equal": {"==": "!="},
    "equal": {"!=": "=="},
    "or": {"&&": "||"},
    "and": {"||": "&&"},
    "minus": {"+": "-", "+=": "-="},
    "plus": {"-": "+", "-=": "+="},
}
OPERATORS = sorted(
    [*SWAPS, "call_deleted", "assignment_deleted", "condition_negated", "next_number", "success_returned",
     "not_dropped", "break_removed", "continue_removed"]
)
MOST_NUMBER = 16  # larger ones are sizes and masks
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}


class Mutation(NamedTuple):
    function: str
    operator: str
    start: int  # of the bytes that are replaced
    end: int
    new: str


class Token(NamedTuple):
    text: str
    kind: str
    start: int
    end: int


def blanked(text):
    """The text with comments, strings and lines of the preprocessor as blanks, at the same offsets."""

    def blank(match):
        inside = re.sub(r"[^\n]", " ", match.group())
        return '"' + inside[1:-1] + '"' if match.group()[0] in "\"'" else inside

    return SKIPPED.sub(blank, text)


def tokens_of(code, start, end):
    found = []
    for m in TOKEN.finditer(code, start, end):
        kind = m.lastgroup
        if m.group() == '"':  # a string is two quotes and blanks: one operand
            kind = "string"
        found.append(Token(m.group(), kind, m.start(), m.end()))
    return found


def pairs_of(tokens):
    """The index of each closing bracket by that of its opening one."""
    closing, stack = {}, []
    for i, t in enumerate(tokens):
        if t.text in "([{":
            stack.append(i)
        elif t.text in ")]}" and stack:
            closing[stack.pop()] = i
    return closing


def head_of(code, brace):
    """Name and result type of the function whose body begins here."""
    head = code[max(code.rfind("\n}", 0, brace), code.rfind(";\n", 0, brace), code.rfind("\n\n", 0, brace)) + 1 : brace]
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", lambda m: " " * len(m.group()), head, flags=re.S)
    m = re.search(r"(\w+)\s*\(", head)
    return (m.group(1), head[: m.start()]) if m else ("", "")


def statement_ends(tokens, closing, at):
    """The index of the `;` of an expression's statement that begins here; None if none does."""
    while at < len(tokens) and tokens[at].text not in ";{}":
        at = closing.get(at, at) + 1
    return at if at < len(tokens) and tokens[at].text == ";" else None


def is_declaration(left):
    """Two words in a row, or a word, a star and a word: `struct x *p`, `int n`."""
    if left[0].kind == "word" and left[0].text in KEYWORDS:
        return True
    if len(left) > 1 and left[0].kind == "word" and left[1].kind == "word":
        return True
    return len(left) > 2 and left[0].kind == "word" and left[1].text == "*" and left[2].text in ("*", "const") or (
        len(left) == 3 and left[0].kind == "word" and left[1].text == "*" and left[2].kind == "word"
    )


def statement_kind(tokens, closing, first, end):
    """The operator that deletes the statement; None for declarations and those without an effect."""
    if tokens[first].text in KEYWORDS:
        return None
    depth_end = first
    while depth_end < end and tokens[depth_end].text not in ASSIGNMENTS:
        depth_end = closing.get(depth_end, depth_end) + 1
    if depth_end < end:
        return None if is_declaration(tokens[first:depth_end]) else "assignment_deleted"
    if tokens[first].text in ("++", "--") or tokens[end - 1].text in ("++", "--"):
        return "assignment_deleted"
    if tokens[first].kind == "word" and tokens[first].text not in KEYWORDS and tokens[end - 1].text == ")":
        opening = next((i for i, c in closing.items() if c == end - 1), first)
        between = tokens[first:opening]
        if opening > first and all(t.kind == "word" or t.text in ("->", ".", "[", "]") for t in between):
            return None if is_declaration(between) else "call_deleted"
    return None


def begins_statement(tokens, opening, i):
    """Can a statement begin here? After another one, a block's brace, a label, else, or a head's bracket."""
    if i == 0:
        return True
    before = tokens[i - 1]
    if before.text in (";", "{", "}", "else", "do"):
        return True
    if before.text == ":":
        return True
    return before.text == ")" and opening.get(i - 1, 0) > 0 and (
        tokens[opening[i - 1] - 1].text in ("if", "for", "while", "switch") or tokens[opening[i - 1] - 1].text.isupper()
    )


class Body:
    """A function's body: its tokens, and which of them are in the brackets of a silent call."""

    def __init__(self, text, code, start, end):
        self.text, self.tokens = text, tokens_of(code, start, end)
        self.name, self.result = head_of(code, start - 2)
        self.closing = pairs_of(self.tokens)
        self.opening = {c: o for o, c in self.closing.items()}
        self.silent, self.round = set(), {}
        for o, c in self.closing.items():
            if o and self.tokens[o].text == "(" and SILENT.match(self.tokens[o - 1].text):
                self.silent.update(range(o - 1, c + 1))
        for o, c in sorted(self.closing.items()):
            if self.tokens[o].text in "([":
                self.round.update((i, o) for i in range(o + 1, c))

    def replace(self, operator, first, last, new):
        return Mutation(self.name, operator, self.tokens[first].start, self.tokens[last].end, new)

    def deleted(self, operator, first, last):
        """A statement of several lines leaves as many."""
        lines = self.text[self.tokens[first].start : self.tokens[last].end].count("\n")
        return self.replace(operator, first, last, "(void)0;" + "\n" * lines)

    def of_statement(self, i):
        t = self.tokens[i]
        if t.text in ("break", "continue"):
            yield self.deleted(t.text + "_removed", i, i + 1)
        elif t.text == "return" and re.search(r"\bncclResult_t\s*$", self.result):
            end = statement_ends(self.tokens, self.closing, i)
            if end and [x.text for x in self.tokens[i + 1 : end]] != ["ncclSuccess"]:
                lines = self.text[t.start : self.tokens[end].end].count("\n")
                yield self.replace("success_returned", i, end, "return ncclSuccess;" + "\n" * lines)
        elif i not in self.round and begins_statement(self.tokens, self.opening, i):
            end = statement_ends(self.tokens, self.closing, i)
            kind = end and end > i and statement_kind(self.tokens, self.closing, i, end)
            if kind:
                yield self.deleted(kind, i, end)

    def is_binary(self, i):
        before = self.tokens[i - 1] if i else None
        return before is not None and (
            before.kind in ("number", "string") or before.text in ")]" or
            before.kind == "word" and before.text not in KEYWORDS)

    def of_token(self, i):
        t = self.tokens[i]
        for operator, table in SWAPS.items():
            if t.text in table and self.is_binary(i):
                yield self.replace(operator, i, i, table[t.text])
        if t.text == "!":
            yield self.replace("not_dropped", i, i, "")
        elif t.text in ("if", "while") and i + 1 in self.closing and self.tokens[i + 2].text != "!":
            end = self.closing[i + 1]
            inside = self.text[self.tokens[i + 2].start : self.tokens[end - 1].end]
            yield self.replace("condition_negated", i + 2, end - 1, "!(" + inside + ")")
        number = re.fullmatch(r"(\d+)([uUlL]*)", t.text)
        if number and int(number.group(1)) <= MOST_NUMBER and not (t.text[0] == "0" and len(number.group(1)) > 1):
            yield self.replace("next_number", i, i, str(int(number.group(1)) + 1) + number.group(2))

    def mutations(self):
        for i in range(len(self.tokens)):
            if i not in self.silent:
                yield from self.of_statement(i)
                yield from self.of_token(i)


def mutations(text):
    code = blanked(text)
    for m in FUNCTION.finditer(code):
        body = Body(text, code, m.start(1), m.end(1))
        if body.name:
            yield from body.mutations()
