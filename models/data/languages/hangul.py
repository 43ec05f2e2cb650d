"""Korean word forms, computed from the letters of a syllable.

Unicode puts the 11,172 syllables in the order of their letters, 19 initials by 21 vowels by 28 finals (the first means
none), from U+AC00 on (The Unicode Standard, section 3.12). So arithmetic shows whether a word ends in a consonant, and
how a stem changes before an ending.

A stem is the part of a verb before "-다"; a "*" after it marks one that is irregular in ㄷ, ㅂ or ㅎ (듣다, 돕다,
빨갛다, but not 닫다, 입다, 좋다), which its letters do not show.
"""

from __future__ import annotations

from functools import cache

VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
FINALS = " ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"
RIEUL = 5  # ㄹ among the initials
FIRST = 0xAC00

PARTICLES = {"은": "는", "이": "가", "을": "를", "과": "와", "으로": "로"}
"""The forms after a consonant and after a vowel."""


def final(word: str) -> str:
    """The final consonant of a word's last syllable, or " "."""
    return FINALS[(ord(word[-1]) - FIRST) % len(FINALS)]


def particle(after: str, which: str) -> str:
    """The form of a particle after a word; `which` is its form in `PARTICLES` after consonants."""
    consonant = final(after) != " " and not (which == "으로" and final(after) == "ㄹ")
    return which if consonant else PARTICLES[which]


@cache
def present(stem: str) -> str:
    """The polite present, "-아요" or "-어요": 마시- gives 마셔요."""
    return _informal(stem) + "요"


@cache
def past(stem: str) -> str:
    """The polite past, "-았어요" or "-었어요": 마시- gives 마셨어요."""
    return _closed(_informal(stem), "ㅆ") + "어요"


@cache
def prospective(stem: str) -> str:
    """The form before 거예요 (will) and 수 있어요 (can), "-(으)ㄹ": 먹- gives 먹을."""
    return _closed(_open(stem), "ㄹ")


@cache
def perfective(stem: str) -> str:
    """A verb in the past, or a descriptive verb, before a noun, "-(으)ㄴ": 먹- gives 먹은, 작- gives 작은."""
    return _closed(_open(stem), "ㄴ")


@cache
def imperfective(stem: str) -> str:
    """A verb in the present before a noun, "-는": 팔- gives 파는."""
    plain = stem.rstrip("*")
    return (_closed(plain, " ") if final(plain) == "ㄹ" else plain) + "는"


@cache
def honorific(stem: str) -> str:
    """The stem that honours the subject, "-(으)시-": 읽- gives 읽으시-."""
    return _open(stem) + "시"


@cache
def honorific_present(stem: str) -> str:
    """The polite present of an honorific stem, "-세요": 드시- gives 드세요."""
    return stem.removesuffix("시") + "세요"


def negated(stem: str) -> str:
    """The form before 않아요 (not), "-지": 먹- gives 먹지."""
    return stem.rstrip("*") + "지"


def joined(stem: str) -> str:
    """A verb with "and" after it, "-고": 먹- gives 먹고."""
    return stem.rstrip("*") + "고"


# ---- stems before vowels


def _open(stem: str) -> str:
    """The stem before endings that begin with "(으)": always without a final consonant."""
    plain = stem.rstrip("*")
    consonant = final(plain)
    if consonant in (" ", "ㄹ"):
        return _closed(plain, " ")
    if stem == plain:
        return plain + "으"
    if consonant == "ㄷ":
        return _closed(plain, "ㄹ") + "으"
    return _closed(plain, " ") + ("우" if consonant == "ㅂ" else "")


def _informal(stem: str) -> str:
    """The stem with "-아" or "-어", contracted as in speech; it ends in a vowel."""
    plain = stem.rstrip("*")
    consonant, vowel = final(plain), _vowel(plain)
    if stem != plain and consonant == "ㅎ":  # 빨갛- 빨개
        return _voiced(_closed(plain, " "), {"ㅏ": "ㅐ", "ㅑ": "ㅒ", "ㅓ": "ㅔ"}[vowel])
    if stem != plain and consonant == "ㅂ":  # 무겁- 무거워, but 돕- 도와
        return _closed(plain, " ") + ("와" if len(plain) == 1 and vowel == "ㅗ" else "워")
    if stem != plain:  # 듣- 들어
        return _closed(plain, "ㄹ") + _a_or_eo(vowel)
    if consonant != " ":
        return plain + _a_or_eo(vowel)
    if plain.endswith("하"):
        return _voiced(plain, "ㅐ")
    if plain.endswith("르"):  # 고르- 골라
        before = plain[:-1]
        ending = "ㅏ" if _a_or_eo(_vowel(before)) == "아" else "ㅓ"
        return _closed(before, "ㄹ") + chr(FIRST + (RIEUL * len(VOWELS) + VOWELS.index(ending)) * len(FINALS))
    if vowel == "ㅡ":  # 크- 커, 나쁘- 나빠: the syllable before decides
        return _voiced(plain, "ㅏ" if len(plain) > 1 and _a_or_eo(_vowel(plain[:-1])) == "아" else "ㅓ")
    contracted = {"ㅗ": "ㅘ", "ㅜ": "ㅝ", "ㅣ": "ㅕ", "ㅚ": "ㅙ"}
    if vowel in contracted:
        return _voiced(plain, contracted[vowel])
    return plain if vowel in "ㅏㅐㅓㅔㅕ" else plain + "어"


def _a_or_eo(vowel: str) -> str:
    """Vowel harmony."""
    return "아" if vowel in "ㅏㅑㅗ" else "어"


def _vowel(word: str) -> str:
    return VOWELS[(ord(word[-1]) - FIRST) // len(FINALS) % len(VOWELS)]


def _closed(word: str, consonant: str) -> str:
    """The word with another final consonant; " " for none."""
    return word[:-1] + chr(ord(word[-1]) + FINALS.index(consonant) - FINALS.index(final(word)))


def _voiced(word: str, vowel: str) -> str:
    """The word with another last vowel."""
    return word[:-1] + chr(ord(word[-1]) + (VOWELS.index(vowel) - VOWELS.index(_vowel(word))) * len(FINALS))
