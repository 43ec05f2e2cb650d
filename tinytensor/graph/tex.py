"""Text for LaTeX, in ASCII: `√dₖ = 4` is `$\\sqrt{d_{k}}=4$`, `in_proj` is `in\\_proj`."""

from __future__ import annotations

import re
import unicodedata

from .short_text import MINUS, printable

NAMES = """alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon varphi
chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega partial nabla times div cdot to infty odot le ge ne
surd emptyset updownarrow in approx pm ldots"""
SIGNS = {c: f"\\{name} " for c, name in zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ∂∇×÷·→∞⊙≤≥≠√∅↕∈≈±…", NAMES.split())}
SIGNS |= {MINUS: "-", "<": "<", ">": ">", "|": "|"}
ABOVE, BELOW = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵀ", "₀₁₂₃₄₅₆₇₈₉ᵢⱼₖₕₜ"
ESCAPED = {c: f"\\{c}" for c in "_%#$&{}"} | {"\\": r"\textbackslash{}", '"': "''", "ß": r"\ss{}", "ø": r"\o{}"}
ESCAPED |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "'": "'{}", "`": "`{}", "-": "-{}"}  # no ligatures
ACCENTS = dict(zip("\u0300\u0301\u0302\u0303\u0308\u030a\u030c\u0327", "`'^~\"rvc"))

NAME = r"[A-Za-z](?:[A-Za-z0-9_]|\.(?=\w))*"
PIECE = re.compile(
    rf"√(?P<root>\([^()]*\)|{NAME}[{BELOW}]*|[\d.]+)|(?<=\d)e(?P<power>[+{MINUS}-]\d+)"
    rf"|(?P<above>[{ABOVE}]+)|(?P<below>[{BELOW}]+)|{NAME}|."
)
WORD = rf"(?:(?![·…](?: |$))[^ ]*[{''.join(SIGNS)}{ABOVE}{BELOW}][^ ]*|[^ ]*\de[+{MINUS}-]\d[^ ]*|[=+/]|^[A-Za-z]$"
WORD += r"|(?![aAI](?: |$))[A-Za-z]\d?(?:_[A-Za-z0-9]+)?)(?![^ ])"
RUN = re.compile(rf"(?<![^ ])((?:\d[\d.]* )*{WORD}(?: (?:{WORD}|\d[\d.]*(?![^ ])))*)")
"""Adjacent words of mathematics, with the numbers among them; `a` and `I` are words."""

OTHER = r'\providecommand\unicode[1]{\ifdefined\Umathchar\char"#1\relax\else[U+#1]\fi}'
"""The command for characters that LaTeX has no name for: LuaLaTeX and XeLaTeX take them from the paper's font."""


def tex(text: str) -> str:
    """Text in LaTeX, with its mathematics between dollars."""
    parts = enumerate(RUN.split(printable(unicodedata.normalize("NFC", text))))
    return "".join(f"${_mathematics(part)}$" if i % 2 else "".join(map(_escaped, part)) for i, part in parts)


def _mathematics(text: str) -> str:
    return PIECE.sub(_piece, re.sub(r" ?([=+−×÷→<>/⊙·]) ?", r"\1", text))


def _piece(piece: re.Match[str]) -> str:
    c = piece[0]
    if piece["root"]:
        return f"\\sqrt{{{_mathematics(piece['root'].removeprefix('(').removesuffix(')'))}}}"
    if piece["power"]:
        return rf"\cdot 10^{{{int(piece['power'].replace(MINUS, '-'))}}}"
    if piece["above"] or piece["below"]:
        apart = "{}" * (piece.string[: piece.start()][-1:] in (*ABOVE, *BELOW))  # TeX allows one of each
        inside = unicodedata.normalize("NFKD", c.replace("ᵀ", r"\top ")).replace(MINUS, "-")
        return f"{apart}{'^' if piece['above'] else '_'}{{{inside}}}"
    letter, _, index = c.partition("_")
    if len(letter) == 1 and index.isalnum():
        return f"{{{letter}_{{\\mathrm{{{index}}}}}}}" if len(index) > 1 else f"{{{letter}_{{{index}}}}}"
    plain = len(c) == 1 and c.isascii() and c not in ESCAPED
    return r"\," if c == " " else SIGNS.get(c) or (c if plain else f"\\mbox{{{''.join(map(_escaped, c))}}}")


def _escaped(c: str) -> str:
    """A character outside of mathematics."""
    base, accent = unicodedata.normalize("NFD", c)[0], ACCENTS.get(unicodedata.normalize("NFD", c)[1:])
    if c in SIGNS:
        return f"${SIGNS[c].rstrip()}$"
    if c in ESCAPED or c.isascii():
        return ESCAPED.get(c, c)
    return f"\\{accent}{{{base}}}" if accent and base.isascii() else f"\\unicode{{{ord(c):X}}}"
