"""The words of the toy languages: their forms in English, French and Korean, and the words they go with.

Regular forms are computed; the tables hold only the rest. A kind ("person", "food", ...) limits the nouns that a verb
or an adjective may go with, so that sentences make sense.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

VOWELS = "aeiouyàâéèêëîïôûœ"
H_ASPIRÉ = ("héros", "hibou")


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Noun:
    """A noun, or a name.

    Attributes:
        english, french: singular and plural; the same form twice without a plural.
        gender: "m" or "f", that of the French noun.
        korean: the only form; particles are separate words.
        counter: the Korean word for counting it.
        kinds: the kinds it belongs to.
        honoured: True if Korean speaks of this person with respect.
    """

    english: tuple[str, str]
    french: tuple[str, str]
    gender: str
    korean: str
    counter: str = ""
    kinds: frozenset[str] = frozenset()
    honoured: bool = False

    @property
    def countable(self) -> bool:
        """True if the languages form a plural of it."""
        return self.kinds.isdisjoint(("mass", "place", "single"))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Pronoun(Noun):
    """A personal pronoun: `english` and `french` hold its nominative.

    Attributes:
        plural: True if it refers to several.
        accusative: the English accusative.
        clitics: the French forms before the verb, as a direct and as an indirect object.
    """

    plural: bool = False
    accusative: str = ""
    clitics: tuple[str, str] = ("", "")


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Adjective:
    """An adjective.

    Attributes:
        english: its only form.
        french: masculine, feminine, and masculine before a vowel.
        before: True if it precedes the French noun.
        stem: that of the Korean descriptive verb; a "*" after it marks an irregular one. "" if it is never a predicate.
        attribute: the form before the Korean noun, if there is no stem.
        kinds: the kinds of nouns it describes.
    """

    english: str
    french: tuple[str, str, str]
    before: bool
    stem: str
    attribute: str
    kinds: frozenset[str]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Verb:
    """A verb.

    Attributes:
        english: base, third person and past, each with its preposition ("looks for").
        infinitive, participle: those in French.
        present: first and third person singular, third person plural.
        imperfect: the past forms instead of the perfect, persons as in `present`.
        être: True if it forms its past with être; the participle then agrees with the subject.
        dative: True if the direct object in English is an indirect one in French and Korean (parler à, -에게).
        stem: that of the Korean verb; a "*" after it marks an irregular one.
        honorific: its stem if an honoured subject changes the word.
        humble: its stem if an honoured recipient changes the word.
        negative: its stem if negation changes the word.
        subjects: the kinds of its subject.
        objects: the kinds of its object; empty if it takes none.
        frames: further parts that may follow: "recipient", "destination", "back", "direction", "arrival", "manner",
            "place", "companion", "tool"; "second" if it may come second ("buys a cake and eats it"), "last" if no other
            verb may follow, "stative" if it has no place and time.
        tools: the kinds of tools for it.
    """

    english: tuple[str, str, str]
    infinitive: str
    present: tuple[str, str, str]
    participle: str = ""
    imperfect: tuple[str, ...] = ()
    être: bool = False
    dative: bool = False
    stem: str = ""
    honorific: str = ""
    humble: str = ""
    negative: str = ""
    subjects: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    frames: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()

    @property
    def transitive(self) -> bool:
        return bool(self.objects)


@dataclass(frozen=True, eq=False, slots=True)
class Expression:
    """A fixed expression: words of the three languages; those that share a digit after the colon are aligned."""

    english: str
    french: str
    korean: str
    parsed: dict[str, list[tuple[str, str]]] = field(init=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for language in ("english", "french", "korean"):
            words = [word.partition(":") for word in getattr(self, language).split()]
            self.parsed[language] = [(text, number) for text, _, number in words]


def starts_with_vowel(french: str) -> bool:
    """True if words before it are elided: it begins with a vowel or a mute h."""
    if french[0] == "h":
        return not french.startswith(H_ASPIRÉ)
    return french[0].lower() in VOWELS


def _rows(table: str) -> Iterator[list[str]]:
    for line in table.strip().splitlines():
        yield [cell.strip() for cell in line.split("|")]


# ---- nouns

# english[/plural] | french[/plural] gender | korean [counter] | kinds
_NOUNS = """
child/children     | enfant m                         | 아이        | person young
girl               | fille f                          | 소녀        | person young
boy                | garçon m                         | 소년        | person young
woman/women        | femme f                          | 여자        | person adult
man/men            | homme m                          | 남자        | person adult
friend             | ami m                            | 친구        | person own
neighbor           | voisin m                         | 이웃        | person own
student            | étudiant m                       | 학생        | person own
doctor             | médecin m                        | 의사        | person own adult
nurse              | infirmière f                     | 간호사      | person adult
singer             | chanteur m                       | 가수        | person adult
actress            | actrice f                        | 여배우      | person adult
king               | roi m                            | 왕          | person adult
queen              | reine f                          | 여왕        | person adult
hero/heroes        | héros m                          | 영웅        | person
brother            | frère m                          | 남동생      | person kin
sister             | sœur f                           | 여동생      | person kin
aunt               | tante f                          | 이모        | person kin
teacher            | professeur m                     | 선생님      | person own honoured
mother             | mère f                           | 어머니      | person kin honoured single
father             | père m                           | 아버지      | person kin honoured single
grandmother        | grand-mère/grands-mères f        | 할머니      | person kin honoured
grandfather        | grand-père/grands-pères m        | 할아버지    | person kin honoured
cat                | chat m                           | 고양이      | animal
dog                | chien m                          | 개          | animal
bird               | oiseau m                         | 새          | animal colored
horse              | cheval m                         | 말          | animal colored
cow                | vache f                          | 소          | animal
rabbit             | lapin m                          | 토끼        | animal colored
mouse/mice         | souris f                         | 쥐          | animal
duck               | canard m                         | 오리        | animal
elephant           | éléphant m                       | 코끼리      | animal
owl                | hibou/hiboux m                   | 부엉이      | animal
bear               | ours m                           | 곰          | animal
apple              | pomme f                          | 사과        | fruit
orange             | orange f                         | 오렌지      | fruit
strawberry         | fraise f                         | 딸기        | fruit
tomato/tomatoes    | tomate f                         | 토마토      | fruit
carrot             | carotte f                        | 당근        | fruit
lemon              | citron m                         | 레몬        | fruit
melon              | melon m                          | 멜론        | fruit
egg                | œuf m                            | 달걀        | food
cake               | gâteau m                         | 케이크      | food baked
cookie             | biscuit m                        | 과자        | food
bread              | pain m                           | 빵          | mass food baked
cheese             | fromage m                        | 치즈        | mass food
meat               | viande f                         | 고기        | mass food
rice               | riz m                            | 밥          | mass food spooned
soup               | soupe f                          | 수프        | mass food spooned liquid
water              | eau f                            | 물          | mass drink liquid
milk               | lait m                           | 우유        | mass drink liquid
coffee             | café m                           | 커피        | mass drink liquid
tea                | thé m                            | 차          | mass drink liquid
juice              | jus m                            | 주스        | mass drink liquid
book               | livre m                          | 책 권       | text thing
letter             | lettre f                         | 편지 통      | text written
newspaper          | journal m                        | 신문 부      | text
story              | histoire f                       | 이야기      | text written heard
poem               | poème m                          | 시 편        | text written
novel              | roman m                          | 소설 권      | text written
song               | chanson f                        | 노래 곡      | heard written
music              | musique f                        | 음악        | mass heard
car                | voiture f                        | 자동차 대   | thing colored device
bicycle            | vélo m                           | 자전거 대   | thing colored device
clock              | horloge f                        | 시계        | thing device
phone              | téléphone m                      | 전화기 대   | thing device portable
computer           | ordinateur m                     | 컴퓨터 대   | thing device portable
lamp               | lampe f                          | 램프        | thing colored device portable
bag                | sac m                            | 가방        | thing colored portable opened
box                | boîte f                          | 상자        | thing colored portable opened
hat                | chapeau m                        | 모자        | thing colored garment
shirt              | chemise f                        | 셔츠 벌      | thing colored garment
dress              | robe f                           | 드레스 벌    | thing colored garment lengthy
coat               | manteau m                        | 외투 벌      | thing colored garment lengthy
umbrella           | parapluie m                      | 우산        | thing colored portable
chair              | chaise f                         | 의자        | thing colored portable
table              | table f                          | 탁자        | thing colored portable
gift               | cadeau m                         | 선물        | thing portable
ball               | balle f                          | 공          | thing colored
flower             | fleur f                          | 꽃 송이       | thing colored
picture            | photo f                          | 사진 장      | thing
house              | maison f                         | 집 채        | building colored
tree               | arbre m                          | 나무 그루     | building
door               | porte f                          | 문          | opened colored
drawer             | tiroir m                         | 서랍        | opened colored
window             | fenêtre f                        | 창문        | opened
knife/knives       | couteau m                        | 칼          | thing lengthy blade
pen                | stylo m                          | 펜          | thing colored pen
pencil             | crayon m                         | 연필        | thing colored lengthy pen
spoon              | cuillère f                       | 숟가락      | thing spoon
key                | clé f                            | 열쇠        | thing key
school             | école f                          | 학교        | place at own
market             | marché m                         | 시장        | place at
station            | gare f                           | 역          | place at
library            | bibliothèque f                   | 도서관      | place at
hospital           | hôpital m                        | 병원        | place at
hotel              | hôtel m                          | 호텔        | place at own
museum             | musée m                          | 박물관      | place at
restaurant         | restaurant m                     | 식당        | place at own
beach              | plage f                          | 해변        | place at
office             | bureau m                         | 사무실      | place at own
garden             | jardin m                         | 정원        | place in own
kitchen            | cuisine f                        | 부엌        | place in own
forest             | forêt f                          | 숲          | place in
park               | parc m                           | 공원        | place in
"""

_NAMES = """
Marie  | f | 마리
Anna   | f | 안나
Emma   | f | 엠마
Sujin  | f | 수진
Paul   | m | 폴
Louis  | m | 루이
Thomas | m | 토마스
Minsu  | m | 민수
"""


def _english_plural(noun: str) -> str:
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def french_plural(word: str) -> str:
    """The regular plural of a French noun or of a masculine adjective."""
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + ("x" if word.endswith("eau") else "s")


def _noun(english: str, french: str, korean: str, kinds: str) -> Noun:
    french, gender = french.split()
    singular, _, plural = french.partition("/")
    one, _, many = english.partition("/")
    name, _, counter = korean.partition(" ")
    what = frozenset({one, *kinds.split()})
    if "mass" in what:
        many, plural = one, singular
    if "honoured" in what:
        counter = "분"
    return Noun(
        english=(one, many or _english_plural(one)),
        french=(singular, plural or french_plural(singular)),
        gender=gender,
        korean=name,
        counter=counter or ("명" if "person" in what else "마리" if "animal" in what else "개"),
        kinds=what,
        honoured="honoured" in what,
    )


NOUNS = [_noun(*row) for row in _rows(_NOUNS)]
NAMES = [
    Noun(english=(name, name), french=(name, name), gender=gender, korean=korean, kinds=frozenset({"person", "name"}))
    for name, gender, korean in _rows(_NAMES)
]


# ---- pronouns


def _pronoun(
    nominative: str, accusative: str, french: str, clitics: str, gender: str, korean: str, plural: bool = False
) -> Pronoun:
    direct, indirect = clitics.split()
    return Pronoun(
        english=(nominative, nominative),
        accusative=accusative,
        french=(french, french),
        clitics=(direct, indirect),
        gender=gender,
        korean=korean,
        plural=plural,
        kinds=frozenset({"person", "pronoun"}),
    )


I = _pronoun("I", "me", "je", "me me", "m", "저")  # noqa: E741
HE = _pronoun("he", "him", "il", "le lui", "m", "그")
SHE = _pronoun("she", "her", "elle", "la lui", "f", "그녀")
THEY = _pronoun("they", "them", "ils", "les leur", "m", "그들", plural=True)
THEY_FEMININE = _pronoun("they", "them", "elles", "les leur", "f", "그들", plural=True)
IT = {
    gender: _pronoun("it", "it", "", f"{clitic} lui", gender, "그것") for gender, clitic in [("m", "le"), ("f", "la")]
}
THINGS = {gender: _pronoun("they", "them", "", "les leur", gender, "그것들", plural=True) for gender in "mf"}


def pronoun_for(noun: Noun, plural: bool) -> Pronoun:
    """The pronoun for a noun mentioned before; in French it has the noun's gender."""
    if "person" in noun.kinds:
        if plural:
            return THEY if noun.gender == "m" else THEY_FEMININE
        return HE if noun.gender == "m" else SHE
    return (THINGS if plural else IT)[noun.gender]


# ---- adjectives


def _stem(korean: str) -> str:
    return korean.removesuffix("*").removesuffix("다") + "*" * korean.endswith("*")


# english | french masculine [feminine [masculine before a vowel]] | before the noun? | korean | kinds
_ADJECTIVES = """
big         | grand                    | before | 크다      | thing animal building place
small       | petit                    | before | 작다      | person thing animal building place fruit baked
beautiful   | beau belle bel           | before | 아름답다* | adult building place text heard flower
pretty      | joli                     | before | 예쁘다    | garment flower place young
new         | nouveau nouvelle nouvel  | before | 새        | thing text place building
old         | vieux vieille vieil      | before | 낡은      | thing text building
good        | bon bonne                | before | 좋다      | food drink text heard
young       | jeune                    | before | 젊은      | adult
red         | rouge                    |        | 빨갛다*   | colored
blue        | bleu                     |        | 파랗다*   | colored
yellow      | jaune                    |        | 노랗다*   | colored
white       | blanc blanche            |        | 하얗다*   | colored animal
black       | noir                     |        | 까맣다*   | colored animal
green       | vert                     |        | 초록색    | colored
heavy       | lourd                    |        | 무겁다*   | portable text
light       | léger légère             |        | 가볍다*   | portable garment
expensive   | cher chère               |        | 비싸다    | thing
long        | long longue              |        | 길다      | text heard lengthy
short       | court                    |        | 짧다      | text heard lengthy
interesting | intéressant              |        | 재미있다  | text
difficult   | difficile                |        | 어렵다*   | text
strange     | étrange                  |        | 이상하다  | person animal thing text heard building place
fresh       | frais fraîche            |        | 신선하다  | food fruit
delicious   | délicieux délicieuse     |        | 맛있다    | food fruit drink
cold        | froid                    |        | 차갑다*   | liquid
hot         | chaud                    |        | 뜨겁다*   | liquid
happy       | heureux heureuse         |        | 행복하다  | person
sad         | triste                   |        | 슬프다    | person animal
tired       | fatigué                  |        | 피곤하다  | person
kind        | gentil gentille          |        | 친절하다  | person
famous      | célèbre                  |        | 유명하다  | adult place text
sick        | malade                   |        | 아프다    | person animal
intelligent | intelligent              |        | 똑똑하다  | person animal
quiet       | tranquille               |        | 조용하다  | place person
"""


def _adjective(english: str, french: str, before: str, korean: str, kinds: str) -> Adjective:
    masculine, *others = french.split()
    feminine = others[0] if others else masculine if masculine.endswith("e") else masculine + "e"
    regular = korean.endswith(("다", "다*"))
    return Adjective(
        english=english,
        french=(masculine, feminine, others[1] if len(others) > 1 else masculine),
        before=bool(before),
        stem=_stem(korean) if regular else "",
        attribute="" if regular else korean,
        kinds=frozenset(kinds.split()),
    )


ADJECTIVES = [_adjective(*row) for row in _rows(_ADJECTIVES)]


# ---- verbs

# english [past] | french infinitive [present I, he, they; participle] [être] [à] | korean [honorific] [humble]
# | subjects | objects | frames
_VERBS = """
sleep slept    | dormir dors dort dorment dormi | 자다 주무시다 | person animal | | place
laugh          | rire ris rit rient ri | 웃다 | person | | place companion
cry            | pleurer | 울다 | person | | place
sing sang      | chanter | 노래하다 | person | | place companion
dance          | danser | 춤추다 | person | | place companion
work           | travailler | 일하다 | person | | place companion manner
walk           | marcher | 걷다* | person animal | | direction companion manner
run ran        | courir cours court courent couru | 달리다 | person animal | | direction
go went        | aller vais va vont allé être | 가다 | person | | destination direction companion
return         | retourner être | 돌아가다 | person | | back companion
arrive         | arriver être | 도착하다 | person | | arrival companion
eat ate        | manger | 먹다 드시다 | person animal | food fruit | manner place companion tool:spoon second last
drink drank    | boire bois boit boivent bu | 마시다 드시다 | person animal | drink | manner place companion second last
read read      | lire lis lit lisent lu | 읽다 | person | text | manner place second
write wrote    | écrire écris écrit écrivent écrit | 쓰다 | person | written | manner place tool:pen
buy bought     | acheter achète achète achètent acheté | 사다 | person | thing food fruit drink text | place companion
sell sold      | vendre vends vend vendent vendu | 팔다 | person | thing food fruit text house | place second last
find found     | trouver | 발견하다 | person | thing animal | place
look_for       | chercher | 찾다 | person | thing animal person text | place companion
lose lost      | perdre perds perd perdent perdu | 잃어버리다 | person | thing | place last
choose chose   | choisir choisis choisit choisissent choisi | 고르다 | person | thing text | place companion
see saw        | voir vois voit voient vu | 보다 | person animal | thing animal person building | place
watch          | regarder | 바라보다 | person animal | animal person building | second
love           | aimer | 사랑하다 | person | animal person | last stative
hate           | détester | 싫어하다 | person | animal fruit drink heard | last stative
help           | aider | 돕다* | person | person | place second
meet met       | rencontrer | 만나다 | person | person | place
wait_for       | attendre attends attend attendent attendu | 기다리다 | person | person | place companion
call           | appeler appelle appelle appellent appelé | 부르다 | person | person | second
follow         | suivre suis suit suivent suivi | 따라가다 | person animal | person animal | second
visit          | visiter | 방문하다 | person | place | companion
listen_to      | écouter | 듣다* | person | heard | place companion
wash           | laver | 씻다 | person | fruit | manner place second
cut cut        | couper | 자르다 | person | fruit baked | manner tool:blade second
open           | ouvrir ouvre ouvre ouvrent ouvert | 열다 | person | opened | manner tool:key second
close          | fermer | 닫다 | person | opened | manner second
carry          | porter | 옮기다 | person | portable | manner companion second
repair         | réparer | 고치다 | person | device | manner place second
draw drew      | dessiner | 그리다 | person | animal building flower | place tool:pen second
give gave      | donner | 주다 humble:드리다 | person | thing text | recipient
lend lent      | prêter | 빌려주다 humble:빌려드리다 | person | thing text | recipient
show           | montrer | 보여주다 humble:보여드리다 | person | thing animal | recipient
send sent      | envoyer envoie envoie envoient envoyé | 보내다 | person | written portable | recipient
speak_to spoke | parler à | 말하다 | person | person | place
answer         | répondre réponds répond répondent répondu à | 대답하다 | person | person |
"""


def _english_verb(word: str, past: str) -> tuple[str, str, str]:
    word, _, preposition = word.partition("_")
    if word.endswith(("s", "x", "ch", "sh", "o")):
        third = word + "es"
    elif word.endswith("y") and word[-2] not in "aeiou":
        third = word[:-1] + "ies"
    else:
        third = word + "s"
    regular = third[:-1] + "d" if third.endswith("ies") else word + ("d" if word.endswith("e") else "ed")
    base, third, past = (f"{form} {preposition}".strip() for form in (word, third, past or regular))
    return base, third, past


def _french_verb(cell: str) -> tuple[str, tuple[str, str, str], str]:
    infinitive, *forms = cell.split()
    if not forms:
        stem = infinitive[:-2]
        return infinitive, (stem + "e", stem + "e", stem + "ent"), stem + "é"
    return infinitive, (forms[0], forms[1], forms[2]), forms[3]


def _verb(english: str, french: str, korean: str, subjects: str, objects: str, frames: str) -> Verb:
    word, _, past = english.partition(" ")
    words = french.split()
    être, dative = "être" in words, "à" in words
    infinitive, present, participle = _french_verb(" ".join(w for w in words if w not in ("être", "à")))
    stem, *others = (_stem(part) for part in korean.split())
    named = dict(part.split(":") for part in frames.split() if ":" in part)
    humble = next((o.removeprefix("humble:") for o in others if o.startswith("humble:")), "")
    return Verb(
        english=_english_verb(word, past),
        infinitive=infinitive,
        present=present,
        participle=participle,
        être=être,
        dative=dative,
        stem=stem,
        honorific=next((o for o in others if not o.startswith("humble:")), ""),
        humble=humble,
        subjects=frozenset(subjects.split()),
        objects=frozenset(objects.split()),
        frames=frozenset(part.partition(":")[0] for part in frames.split()),
        tools=frozenset(named.values()),
    )


VERBS = [_verb(*row) for row in _rows(_VERBS)]

HAVE = Verb(
    english=("have", "has", "had"),
    infinitive="avoir",
    present=("ai", "a", "ont"),
    imperfect=("avais", "avait", "avaient"),
    stem="있",
    negative="없",
    subjects=frozenset({"person"}),
    objects=frozenset({"thing", "animal"}),
)
BE = Verb(
    english=("be", "is", "was"),
    infinitive="être",
    present=("suis", "est", "sont"),
    imperfect=("étais", "était", "étaient"),
)
THERE_BE = Verb(
    english=("be", "is", "was"),
    infinitive="avoir",
    present=("a", "a", "a"),
    imperfect=("avait", "avait", "avait"),
    stem="있",
)


# ---- expressions


def _expressions(table: str) -> dict[str, Expression]:
    expressions = [Expression(*row) for row in _rows(table)]
    return {" ".join(text for text, _ in e.parsed["english"]): e for e in expressions}


WHERE = _expressions("""
at:1                 | à:1           | -에서:1
in:1                 | dans:1        | -에서:1
near:1               | près:1 de:1   | 근처:1 -에서:1
behind:1             | derrière:1    | 뒤:1 -에서:1
in:1 front:1 of:1    | devant:1      | 앞:1 -에서:1
""")
ARRIVE_AT = Expression("at:1", "à:1", "-에:1")
TO = {"at": Expression("to:1", "à:1", "-에:1"), "in": Expression("to:1", "dans:1", "-에:1")}
BACK_TO = {"at": Expression("to:1", "à:1", "-로:1"), "in": Expression("to:1", "dans:1", "-로:1")}
TOWARD = Expression("toward:1", "vers:1", "-로:1")
WITH_SOMEBODY = Expression("with:1", "avec:1", "-와:1")
WITH_SOMETHING = Expression("with:1", "avec:1", "-로:1")

FREQUENCY = _expressions("""
often:1     | souvent:1  | 자주:1
always:1    | toujours:1 | 항상:1
sometimes:1 | parfois:1  | 가끔:1
""")
MANNER = _expressions("""
slowly:1    | lentement:1  | 천천히:1
quickly:1   | rapidement:1 | 빨리:1
quietly:1   | doucement:1  | 조용히:1
carefully:1 | prudemment:1 | 조심스럽게:1
""")
TIMES = _expressions("""
today:1                | aujourd'hui:1     | 오늘:1
yesterday:1            | hier:1            | 어제:1
tomorrow:1             | demain:1          | 내일:1
every:1 day:2          | chaque:1 jour:2   | 매일:12
in:1 the:2 morning:3   | le:2 matin:3      | 아침:3 -에:1
in:1 the:2 evening:3   | le:2 soir:3       | 저녁:3 -에:1
on:1 Sunday:2          | dimanche:2        | 일요일:2 -에:1
on:1 Monday:2          | lundi:2           | 월요일:2 -에:1
""")
TIMES_OF = {
    "present": ("today", "every day", "in the morning", "in the evening"),
    "past": ("today", "yesterday", "in the morning", "in the evening", "on Sunday", "on Monday"),
    "future": ("today", "tomorrow", "in the morning", "in the evening", "on Sunday", "on Monday"),
    "can": ("today", "tomorrow"),
}
