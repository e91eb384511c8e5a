# SPDX-License-Identifier: MIT
"""Single mutations of C source text: from tokens, without a compiler.

all_mutations() gives every mutation that the tokens of a file offer, in_order() the
order in which to take a sample, spread over lines and kinds.
"""
import random
import re
from collections import Counter
from dataclasses import dataclass

TOKEN = re.compile(r"""
    (?P<skip>\s+|/\*.*?\*/|//[^\n]*|\\\n)
  | (?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
  | (?P<word>[A-Za-z_]\w*)
  | (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+[uUlL]*)
  | (?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
""", re.X | re.S)

REPLACED = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "<<": ">>", ">>": "<<",
    "&&": "||", "||": "&&", "&": "|", "|": "&", "^": "&",
    "++": "--", "--": "++", "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|=",
}

# Names of one kind: a name becomes the next of its row.
SAME_KIND = [
    "m k n m_total", "a b c", "w h", "start len", "iova size", "offset size",
    "macs bytes", "tasks submits", "words stride", "regcfg_amount pc_amount",
    "count nbufs", "usable busy", "error retries", "hung committed replayable",
    "strike poisoned", "replayable aliases", "target reg", "reg value", "value limit",
    "line surf dst notch", "hint_a hint_b hint_c", "size size_1", "page target",
    "name text", "due over", "oldest now", "a_atoms c_atoms", "a_bytes c_bytes",
    "k_bytes es", "best_reg best_want", "miss_reg miss_want", "reg want", "have want",
    "RKC_WORD_A RKC_WORD_B RKC_WORD_C",
    "RKC_BUF_READ RKC_BUF_WRITE", "RKC_WAIT RKC_WAIT41 RKC_LINK RKC_SINGLE",
    "RKC_I8_I32 RKC_I8_I8 RKC_F16_F32 RKC_F16_F16", "RKC_FLAT RKC_NATIVE RKC_SLICE",
    "RKC_PC_ADDRESS RKC_PC_AMOUNT", "RKC_OP_MATMUL RKC_OP_MATMUL_WAIT",
    "RKC_TARGET_NOP RKC_TARGET_ARM RKC_TARGET_OP_ENABLE RKC_TARGET_PC",
    "RKC_TARGET_CNA RKC_TARGET_CORE RKC_TARGET_DPU",
    "RKC_BODY_WORDS RKC_FULL_WORDS", "RKC_WAIT_STRIDE RKC_FULL_WORDS",
    "RKC_WAIT_MAX RKC_LINK_MAX", "RKC_K_MAX RKC_N_MAX",
    "RKC_A_OUTSIDE RKC_B_OUTSIDE RKC_C_OUTSIDE", "RKC_ALIAS_TYPE RKC_ALIAS_ORDER",
    "RKC_ADDR_ALIGN RKC_ADDR_RANGE", "RKC_IOVA_ALIGN RKC_IOVA_RANGE",
    "RKC_K_RANGE RKC_K_ALIGN", "RKC_N_RANGE RKC_N_ALIGN", "RKC_M_ZERO RKC_M_TOO_BIG",
    "RKC_EMPTY RKC_TOO_LONG RKC_TRUNCATED RKC_BAD_STRIDE",
    "RKC_SIZE_MISMATCH RKC_SHORT_WEIGHTS", "RKC_COMPRESSION RKC_LUT RKC_VALUE",
    "RKC_JUMP RKC_INT_MASK RKC_TASK_CONTROL RKC_BASE_ADDRESS RKC_PC_WRITE",
    "RKC_PRECISION RKC_COWORK RKC_CBUF_REUSE RKC_STRIDE RKC_POINTER",
    "RKC_BAD_PADDING RKC_FOREIGN_TARGET RKC_UNKNOWN_REG RKC_BAD_OP_ENABLE",
    "RKC_FATE_DONE RKC_FATE_HUNG RKC_FATE_AGAIN RKC_FATE_HIT RKC_FATE_GONE",
    "RKC_ENODEV RKC_ETIMEDOUT", "READ_FLAT READ_TALL", "READ_SLICE READ_WIDE",
    "FREE_1010 FREE_1040", "FREE_3010 FREE_4050", "true false", "continue break",
]

NOT_A_STATEMENT = {
    "return", "if", "else", "for", "while", "do", "switch", "case", "default", "goto",
    "const", "static", "struct", "enum", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64",
    "bool", "int", "char", "unsigned", "inline", "typedef", "asm",
}


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int
    define: bool      # in the value of a #define
    in_function: bool = False
    nested: bool = False  # in parentheses


@dataclass(frozen=True)
class Mutation:
    file: str
    kind: str
    start: int
    end: int
    new: str
    line: int         # from 1
    before: str       # the lines it touches, blanks collapsed
    after: str
    constant: bool    # of a header, outside of its functions: always another value

    def apply(self, text):
        return text[:self.start] + self.new + text[self.end:]


def tokens(text):
    """What may be mutated: no comments, no strings, of the preprocessor only constants."""
    found = []
    at = 0
    fresh = True      # only blanks on this line so far
    while at < len(text):
        match = TOKEN.match(text, at)
        if match.lastgroup == "skip":
            fresh = fresh or "\n" in match.group()
        elif match.group() == "#" and fresh:
            end = at
            while True:
                end = text.find("\n", end)
                if text[end - 1] != "\\":
                    break
                end += 1
            define = re.match(r"#\s*define\s+\w+[ \t]+", text[at:end])
            if define:
                inner = tokens(text[at + define.end():end])
                found += [Token(t.kind, t.text, t.start + at + define.end(),
                                t.end + at + define.end(), True) for t in inner]
            at = end
            continue
        else:
            fresh = False
            found.append(Token(match.lastgroup, match.group(), at, match.end(), False))
        at = match.end()
    return found


def pairs(found):
    """Index of the other bracket, for each bracket."""
    other, stack = {}, []
    for i, token in enumerate(found):
        if token.kind != "op":
            continue
        if token.text in "([{":
            stack.append(i)
        elif token.text in ")]}":
            other[i] = stack.pop()
            other[other[i]] = i
    return other


def constants(token):
    """Other values of a number: one more, one less, another mask."""
    digits = token.text.rstrip("uUlL")
    suffix = token.text[len(digits):]
    value = int(digits, 16 if digits[:2] in ("0x", "0X") else 10)
    form = hex if digits[:2] in ("0x", "0X") else str
    yield "off by one", form(value + 1) + suffix
    if value:
        yield "off by one", form(value - 1) + suffix
    if form is hex and value > 1:
        yield "flipped mask", form(value & (value - 1)) + suffix         # without its lowest bit
        yield "flipped mask", form(value ^ 1 << (value.bit_length())) + suffix  # and one above


def all_mutations(name, text):
    found = tokens(text)
    other = pairs(found)
    kinds = {}
    for row in SAME_KIND:
        row = row.split()
        for i, word in enumerate(row):
            kinds.setdefault(word, []).append(row[(i + 1) % len(row)])

    # A brace behind a closing parenthesis opens a function's body.
    end, depth = -1, 0
    for i, token in enumerate(found):
        depth += (token.text == "(") - (token.text == ")")
        token.nested = depth > 0
        if i > end and token.text == "{" and not token.define and found[i - 1].text == ")":
            end = other[i]
        token.in_function = i <= end

    made = []

    def add(kind, start, end, new):
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", end)
        join = lambda s: " ".join(s.split())
        made.append(Mutation(
            name, kind, start, end, new, text.count("\n", 0, start) + 1,
            join(text[first:last]), join(text[first:start] + new + text[end:last]) or "(nothing)",
            name.endswith(".h") and not any(t.in_function for t in found if t.start == start)))

    for i, token in enumerate(found):
        before = found[i - 1] if i else Token("op", ";", 0, 0, False)
        after = found[i + 1] if i + 1 < len(found) else before
        binary = before.kind in ("word", "number") and before.text != "return" or before.text in (")", "]")

        if token.kind == "number":
            for kind, new in constants(token):
                add(kind, token.start, token.end, new)

        elif token.kind == "word" and not token.define:
            if token.in_function and token.text in ("if", "while") and after.text == "(":
                close = other[i + 1]
                inside = text[after.end:found[close].start]
                add("negated condition", after.end, found[close].start, "!(%s)" % inside)
                body = close + 1
                stop = other[body] if found[body].text == "{" else \
                    next(j for j in range(body, len(found)) if found[j].text == ";")
                if token.text == "if" and any(t.text in ("return", "continue", "break", "rkc_refuse")
                                              for t in found[body:stop]):
                    add("dropped check", after.end, found[close].start, "0")
            if after.text == "(" and token.in_function and token.text not in NOT_A_STATEMENT:
                swapped_arguments(text, found, i + 1, other[i + 1], add)
            for new in kinds.get(token.text, []):
                # A name that is declared is none that is used.
                if token.in_function or name.endswith(".c") and before.text in ("{", ",", "["):
                    add("swapped field", token.start, token.end, new)
            starts = before.text in (";", "{", "}", ":", "else") or \
                before.text == ")" and found[other[i - 1] - 1].text in ("if", "for", "while")
            if starts and token.in_function and not token.nested and token.text not in NOT_A_STATEMENT \
                    and after.kind != "word" and after.text not in ("*", ":"):
                stop = i
                while found[stop].text != ";":
                    stop = other.get(stop, stop) + 1 if found[stop].text in "([{" else stop + 1
                add("deleted statement", token.start, found[stop].start, "")

        elif token.kind == "op" and not token.define and token.in_function:
            if token.text in "~!":
                add("dropped operator", token.start, token.end, "")
            elif token.text in REPLACED and (binary or token.text in ("++", "--")) \
                    and not (token.text == "*" and before.kind == "word" and is_type(found, i)):
                kind = {"<": "off by one", "<=": "off by one", ">": "off by one",
                        ">=": "off by one"}.get(token.text, "replaced operator")
                add(kind, token.start, token.end, REPLACED[token.text])
        elif token.kind == "op" and token.text == "{" and not token.in_function and not token.define:
            swapped_arguments(text, found, i, other[i], add)
    return made


def is_type(found, star):
    """Does this * declare a pointer?"""
    before = found[star - 1].text
    return before in NOT_A_STATEMENT or before == "char" or \
        before.startswith("rkc_") and found[star - 2].text == "struct"


def swapped_arguments(text, found, start, end, add):
    """Neighbours of a list, both numbers or both simple expressions, exchanged."""
    items, first, i = [], start + 1, start + 1
    while i <= end:
        if i == end or found[i].text == ",":
            items.append((first, i))
            first = i + 1
            i += 1
        elif found[i].text in "([{":
            break         # what nests is looked at by itself
        else:
            i += 1
    for (a, b), (c, d) in zip(items, items[1:]):
        if b == a or d == c or any(t.kind == "text" or t.text in ("*", "=") or t.text in NOT_A_STATEMENT
                                   for t in found[a:d]):
            continue
        left, right = text[found[a].start:found[b - 1].end], text[found[c].start:found[d - 1].end]
        if left != right:
            between = text[found[b - 1].end:found[c].start]
            add("swapped field", found[a].start, found[d - 1].end, right + between + left)


def mutable_lines(made):
    return len({m.line for m in made})


def in_order(made, seed):
    """Shuffled, but every line comes once before one comes twice, and on a line every kind."""
    made = list(made)
    random.Random(seed).shuffle(made)
    seen, turns = Counter(), Counter()
    by_kind = []
    for m in made:
        by_kind.append((seen[m.line, m.kind], m))
        seen[m.line, m.kind] += 1
    by_line = []
    for _, m in sorted(by_kind, key=lambda x: x[0]):
        by_line.append((turns[m.line], m))
        turns[m.line] += 1
    return [m for _, m in sorted(by_line, key=lambda x: x[0])]
