"""Everyday sentences: they can be typed, they are right, and who does not ask for them gets what was there before."""

import zlib
from itertools import islice

import pytest

from tinytensor.models.data.languages import PAIRS, ToyText, TranslationTask, Vocabulary, everyday, pairs, written
from tinytensor.models.data.languages.pairs import LONGEST, SHORTEST

TYPED = {
    "give me a second, please.": ("donne-moi une seconde, s'il te plaît.", "잠깐만 기다려 주세요."),
    "I came second in the exam.": ("j'ai fini deuxième à l'examen.", "저는 시험에서 2등을 했어요."),
    "my dog chases after the thief.": ("mon chien poursuit le voleur.", "제 개는 도둑을 뒤쫓아요."),
    "hi, my name is Kyoungmin.": ("salut, mon nom est Kyoungmin.", "안녕, 내 이름은 경민이야."),
    "hi, my name is Mary.": ("salut, mon nom est Mary.", "안녕, 내 이름은 메리야."),
    "give me the second apple, please.": ("donne-moi la deuxième pomme, s'il te plaît.", "두번째 사과를 주세요."),
}


@pytest.fixture(scope="module", params=PAIRS)
def drawn(request):
    """The name of a pair, and 15,000 everyday sentences."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(everyday, "SHARE", 1.0)
        return request.param, list(islice(pairs(request.param, "everyday", False, everyday_too=True), 15_000))


def test_the_sentences_of_the_lessons_are_there_and_can_be_typed(drawn):
    name, found = drawn
    target = name.split("-")[1]
    said = {written(pair.source, "en"): written(pair.target, target) for pair in found}
    text = ToyText(name, everyday_too=True)
    for line, answers in TYPED.items():
        assert said[line] == answers[target == "ko"]
        ids = text.encode(line)
        assert written(text.source_pieces(ids), "en") == line
        with pytest.raises(ValueError, match="toy language"):
            ToyText(name).encode(line)


def test_they_are_a_share_of_the_training():
    new = everyday.vocabulary("english") - set(Vocabulary("en").words)
    found = list(islice(pairs("en-fr", 0, False, everyday_too=True), 2000))
    assert 0.1 < sum(bool(new & set(pair.source)) for pair in found) / len(found) < 0.25


def test_each_has_one_translation(drawn):
    translations = {}
    for pair in drawn[1]:
        assert translations.setdefault(pair.source, pair.target) == pair.target
        assert SHORTEST <= len(pair.source) <= LONGEST


def test_every_word_occurs_and_none_is_unknown(drawn):
    name, found = drawn
    for side, language in zip(("source", "target"), name.split("-")):
        words = {word for pair in found for word in getattr(pair, side)}
        everyday_too, plain = Vocabulary(language, everyday_too=True), Vocabulary(language)
        assert words <= set(everyday_too.words)
        assert set(everyday_too.words) - set(plain.words) <= words
        assert everyday_too.words[: len(plain)] == plain.words  # no id is another's


def test_second_is_aligned_with_what_it_means_there(drawn):
    name, found = drawn
    meant = {}
    for pair in found:
        if "second" in pair.source:
            place = pair.source.index("second")
            words = {pair.target[j] for i, j in pair.alignment if i == place}
            meant.setdefault(pair.source[0] + (" a" if "a" in pair.source else ""), set()).add(frozenset(words))
    if name == "en-fr":
        assert meant["give a"] == {frozenset({"seconde"})}
        assert meant["give"] == meant["I"] == {frozenset({"deuxième"})}
    else:
        assert meant["give a"] == {frozenset({"잠깐", "-만"})}
        assert (meant["give"], meant["I"]) == ({frozenset({"두번째"})}, {frozenset({"2등"})})


def test_test_pairs_are_the_same_and_so_is_training_for_those_who_do_not_ask():
    """What documented figures were measured with."""
    plain, more = TranslationTask("en-fr"), TranslationTask("en-fr", everyday_too=True)
    assert plain.test_pairs(50) == more.test_pairs(50)
    assert (len(plain.source), len(plain.target)) == (433, 667)
    seen = [(p.source, p.target, sorted(p.alignment)) for p in islice(pairs("en-fr", 0, False), 1500)]
    assert zlib.crc32(repr(seen).encode()) == 1687402640
    batch = more.training_batch(0, 64)
    assert batch.source.max() >= 433


def test_a_codec_remembers_whether_it_knows_them():
    assert ToyText("en-fr").saved() == ({"kind": "toy", "pair": "en-fr"}, {})
    assert ToyText("en-fr", everyday_too=True).saved()[0] == {"kind": "toy", "pair": "en-fr", "everyday_too": True}
    assert ToyText("en-ko", everyday_too=True).sizes == (450, 861)
