"""Korean forms: particles by the final consonant, endings by harmony, contraction and irregularity."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytensor.models.data.languages import hangul

SYLLABLES = st.integers(0xAC00, 0xD7A3).map(chr)


def last_letter(word):
    """The last letter of a word as Unicode takes it apart."""
    return unicodedata.normalize("NFD", word)[-1]


def closed(word):
    return "\u11a8" <= last_letter(word) <= "\u11c2"


@given(st.text(SYLLABLES, min_size=1, max_size=4))
def test_particles_follow_the_final_consonant(word):
    consonant = closed(word)
    assert (hangul.final(word) != " ") == consonant
    assert hangul.particle(word, "은") == ("은" if consonant else "는")
    assert hangul.particle(word, "이") == ("이" if consonant else "가")
    assert hangul.particle(word, "을") == ("을" if consonant else "를")
    assert hangul.particle(word, "과") == ("과" if consonant else "와")
    rieul = last_letter(word) == "\u11af"
    assert hangul.particle(word, "으로") == ("으로" if consonant and not rieul else "로")


@pytest.mark.parametrize(
    ("stem", "present", "past", "prospective", "perfective", "imperfective", "honorific"),
    [
        ("먹", "먹어요", "먹었어요", "먹을", "먹은", "먹는", "먹으시"),
        ("닫", "닫아요", "닫았어요", "닫을", "닫은", "닫는", "닫으시"),
        ("자", "자요", "잤어요", "잘", "잔", "자는", "자시"),
        ("보", "봐요", "봤어요", "볼", "본", "보는", "보시"),
        ("주", "줘요", "줬어요", "줄", "준", "주는", "주시"),
        ("마시", "마셔요", "마셨어요", "마실", "마신", "마시는", "마시시"),
        ("보내", "보내요", "보냈어요", "보낼", "보낸", "보내는", "보내시"),
        ("일하", "일해요", "일했어요", "일할", "일한", "일하는", "일하시"),
        ("쓰", "써요", "썼어요", "쓸", "쓴", "쓰는", "쓰시"),
        ("고르", "골라요", "골랐어요", "고를", "고른", "고르는", "고르시"),
        ("부르", "불러요", "불렀어요", "부를", "부른", "부르는", "부르시"),
        ("팔", "팔아요", "팔았어요", "팔", "판", "파는", "파시"),
        ("열", "열어요", "열었어요", "열", "연", "여는", "여시"),
        ("듣*", "들어요", "들었어요", "들을", "들은", "듣는", "들으시"),
        ("돕*", "도와요", "도왔어요", "도울", "도운", "돕는", "도우시"),
        ("있", "있어요", "있었어요", "있을", "있은", "있는", "있으시"),
    ],
)
def test_verbs(stem, present, past, prospective, perfective, imperfective, honorific):
    assert hangul.present(stem) == present
    assert hangul.past(stem) == past
    assert hangul.prospective(stem) == prospective
    assert hangul.perfective(stem) == perfective
    assert hangul.imperfective(stem) == imperfective
    assert hangul.honorific(stem) == honorific
    assert hangul.negated(stem) == stem.rstrip("*") + "지"
    assert hangul.joined(stem) == stem.rstrip("*") + "고"


@pytest.mark.parametrize(
    ("stem", "attribute", "present", "past"),
    [
        ("작", "작은", "작아요", "작았어요"),
        ("크", "큰", "커요", "컸어요"),
        ("예쁘", "예쁜", "예뻐요", "예뻤어요"),
        ("아프", "아픈", "아파요", "아팠어요"),
        ("길", "긴", "길어요", "길었어요"),
        ("좋", "좋은", "좋아요", "좋았어요"),
        ("무겁*", "무거운", "무거워요", "무거웠어요"),
        ("아름답*", "아름다운", "아름다워요", "아름다웠어요"),
        ("빨갛*", "빨간", "빨개요", "빨갰어요"),
        ("하얗*", "하얀", "하얘요", "하얬어요"),
    ],
)
def test_descriptive_verbs(stem, attribute, present, past):
    assert hangul.perfective(stem) == attribute
    assert hangul.present(stem) == present
    assert hangul.past(stem) == past


def test_honorific_stems_take_their_own_present():
    assert hangul.honorific_present("드시") == "드세요"
    assert hangul.past("드시") == "드셨어요"
    assert hangul.prospective("주무시") == "주무실"
    assert hangul.honorific_present(hangul.honorific("읽")) == "읽으세요"
