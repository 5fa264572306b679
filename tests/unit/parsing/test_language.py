"""Languages of texts, as detected and as declared."""

import pytest

from crawler.parsing import language
from crawler.parsing.document import Document

# Article 1 of the Universal Declaration of Human Rights, in part.
TEXTS = {
    "en": "All human beings are born free and equal in dignity and rights. They are endowed with "
    "reason and conscience and should act towards one another in a spirit of brotherhood.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft "
    "und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués "
    "de raison et de conscience et doivent agir les uns envers les autres dans un esprit de "
    "fraternité.",
    "es": "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como "
    "están de razón y conciencia, deben comportarse fraternalmente los unos con los otros.",
    "it": "Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti. Essi sono dotati "
    "di ragione e di coscienza e devono agire gli uni verso gli altri in spirito di fratellanza.",
    "nl": "Alle mensen worden vrij en gelijk in waardigheid en rechten geboren. Zij zijn begiftigd "
    "met verstand en geweten, en behoren zich jegens elkander in een geest van broederschap te "
    "gedragen.",
    "pl": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni "
    "obdarzeni rozumem i sumieniem i powinni postępować wobec innych w duchu braterstwa.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены "
    "разумом и совестью и должны поступать в отношении друг друга в духе братства.",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "tr": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana "
    "sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler.",
    "zh": "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。"
    "人人有资格享有本宣言所载的一切权利和自由。",
    "ja": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。"
    "人間は、理性と良心とを授けられている。",
    "ko": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. "
    "인간은 천부적으로 이성과 양심을 부여받았다.",
    "ar": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق، وقد وهبوا عقلا وضميرا "
    "وعليهم أن يعامل بعضهم بعضا بروح الإخاء.",
}


@pytest.mark.parametrize("code", TEXTS)
def test_languages_are_told_by_their_texts(code: str) -> None:
    assert language.detect(TEXTS[code]) == code


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("ja", "これは日本語の文章です。今日は天気がいいので公園に行きました。とても楽しかった。"),
        ("zh", "北京是中华人民共和国的首都，是全国的政治中心、文化中心，" * 3),
        ("ja", "カタカナとひらがな" * 10),
    ],
)
def test_short_texts_in_chinese_and_japanese_are_told_by_their_characters(
    code: str, text: str
) -> None:
    assert language.detect(text) == code


def test_a_declared_language_does_not_overrule_a_clear_text() -> None:
    assert language.detect(TEXTS["de"], "en") == "de"


def test_of_close_languages_the_declared_one_is_taken() -> None:
    text = "Velkommen til vores side om mad og drikke. Her kan du finde gode opskrifter."
    assert language.detect(text, "da-DK") == "da"
    assert language.detect(text, "nb_NO") == "no"


@pytest.mark.parametrize("text", ["", "Menu Home About", "1 2 3 " * 100, "\ufffd" * 500])
def test_what_tells_nothing_has_no_language(text: str) -> None:
    assert language.detect(text, "de") == ""


@pytest.mark.parametrize(
    ("tag", "base"), [("de-AT", "de"), ("EN_us", "en"), ("nb", "no"), ("iw", "he"), ("", "")]
)
def test_a_tag_has_a_language(tag: str, base: str) -> None:
    assert language.base_of(tag) == base


def test_menus_do_not_count_where_the_text_without_them_is_known() -> None:
    menu = "Startseite Über uns Kontakt Impressum Datenschutz Angebote Warenkorb " * 5
    document = Document(text=menu + TEXTS["fr"], blocks=[TEXTS["fr"][:60], TEXTS["fr"][60:]])
    assert language.of_document(document) == "fr"
    document = Document(text=menu + TEXTS["fr"], main_text=TEXTS["es"])
    assert language.of_document(document) == "es"
    assert language.of_document(Document(text=TEXTS["de"], blocks=["kurz"])) == "de"
