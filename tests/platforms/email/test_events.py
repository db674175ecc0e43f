"""Tests how a mail becomes an inbound message: threads, senders, encodings and limits."""

import random
import sys
from collections.abc import Callable
from contextlib import suppress
from email import message_from_bytes, message_from_string
from email.message import EmailMessage

import msgspec
import pytest
from tests.platforms.email.builders import CHECKS, address, mail, outbound

from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Author, ChatType
from holdfast.platforms.email.authentication import is_authentic
from holdfast.platforms.email.events import EmailParser, MailIgnored
from holdfast.platforms.email.mime import decoded_header, header_addresses, parse_mail
from holdfast.platforms.email.plugin import EmailSettings
from holdfast.platforms.email.sender import compose

ANN, BOT = "ann@localhost", "bot@localhost"
SETTINGS = EmailSettings(
    address=BOT,
    aliases=("help@localhost",),
    password="env:P",
    imap_host="localhost",
    smtp_host="localhost",
    authserv_id=CHECKS,
)
READER = EmailParser(SETTINGS, account="default")


def read(message: EmailMessage) -> Inbound:
    headers = message_from_bytes(message.as_bytes())
    text = parse_mail(message.as_bytes()).text
    return READER.parse(headers, READER.verify_sender(headers), text, cursor="1:1:1").inbound


def reply_to(name: str, text: str = "yes", **more: str) -> EmailMessage:
    return mail(text, by=ANN, to=BOT, In_Reply_To=name, **more)


def test_the_subject_is_part_of_the_first_mail_of_a_thread_only() -> None:
    assert read(mail("hello", by=ANN, to=BOT, subject="Order")).text == "Subject: Order\n\nhello"
    assert read(mail("\n", by=ANN, to=BOT, subject="Call me")).text == "Call me"
    assert read(mail("/stop", by=ANN, to=BOT, subject="Order")).text == "/stop"
    assert read(reply_to("<1@localhost>", "hello", subject="Re: Order")).text == "hello"


def test_a_mail_has_the_language_that_its_sender_reads() -> None:
    def language(**headers: str) -> str:
        message = mail("hello", by=ANN, to=BOT)
        for name, value in headers.items():
            message[name.replace("_", "-")] = value
        return read(message).source.language

    assert language(Accept_Language="en;q=0.5, de-DE", Content_Language="fr") == "de-DE"
    assert language(Content_Language="fr") == "fr"
    assert language(Content_Language="x" * 60) == "x" * 35
    assert language() == language(Accept_Language="*;q=?") == ""


def test_a_thread_is_identified_by_its_first_mail() -> None:
    first = mail("one", by=ANN, to=BOT)
    name = str(first["Message-ID"])
    later = reply_to("<9@elsewhere>", References=f"{name} <5@elsewhere> <9@elsewhere>")
    assert read(first).source.thread_id == read(later).source.thread_id
    assert read(mail("two", by=ANN, to=BOT)).source.thread_id != read(first).source.thread_id


def test_a_reply_with_only_in_reply_to_stays_in_the_thread() -> None:
    """Our Message-ID has the thread in it."""
    began = read(mail("one", by=ANN, to=BOT))
    sent = compose(
        outbound("hello", address(ANN, began.source.thread_id)), None, settings=SETTINGS, at=0
    )
    answer = read(reply_to(sent.message_id, "thanks\n\n> hello"))
    assert answer.source.thread_id == began.source.thread_id
    assert answer.quoted is not None
    assert (answer.quoted.ours, answer.quoted.text) == (True, "")  # it is in the conversation


def test_a_reply_to_a_mail_we_started_quotes_our_text() -> None:
    sent = compose(outbound("The disk is full", address(ANN)), None, settings=SETTINGS, at=0)
    answer = read(reply_to(sent.message_id, "then clean up\n\n> The disk is full"))
    assert answer.quoted is not None
    assert (answer.quoted.ours, answer.quoted.text) == (True, "The disk is full")


def test_the_same_mail_is_one_event_and_another_with_the_same_id_is_not() -> None:
    """G2: there are programs that give every mail the same Message-ID."""
    one = mail(
        "one", by=ANN, to=BOT, Message_ID="<same@localhost>", Date="Mon, 16 Nov 2026 10:00:00 +0000"
    )
    other = mail(
        "two", by=ANN, to=BOT, Message_ID="<same@localhost>", Date="Mon, 16 Nov 2026 10:00:01 +0000"
    )
    assert read(one).event_id == read(one).event_id != read(other).event_id


def test_a_mail_without_a_message_id_gets_one() -> None:
    message = mail("one", by=ANN, to=BOT)
    del message["Message-ID"]
    assert read(message).message_id.startswith("<")


def test_a_mail_with_the_bot_in_cc_is_a_group_message() -> None:
    copied = read(mail("lunch?", by=ANN, to="bob@localhost", Cc=f"Bot <{BOT}>"))
    assert (copied.source.chat_type, copied.mentioned) == (ChatType.GROUP, False)
    named = read(mail("hello", by=ANN, to="Help <help@localhost>", Cc="bob@localhost"))
    assert (named.source.chat_type, named.mentioned) == (ChatType.DM, True)


@pytest.mark.parametrize(
    "headers",
    [
        {"Auto-Submitted": "auto-replied"},
        {"Auto-Submitted": "auto-generated; owner=x"},
        {"Precedence": "bulk"},
        {"Precedence": "list"},
        {"Precedence": "junk"},
        {"X-Auto-Response-Suppress": "OOF"},
        {"List-Id": "<all.example.org>"},
        {"X-Holdfast-Delivery": "d1"},
    ],
)
def test_automatic_mail_is_distinguished_from_a_person(headers: dict[str, str]) -> None:
    """Loops: what a program has written is not answered."""
    assert read(mail("I am away", by=ANN, to=BOT, **headers)).source.author is Author.BOT


def test_our_own_mail_says_that_a_program_wrote_it() -> None:
    sent = compose(outbound("hello", address(ANN)), None, settings=SETTINGS, at=0)
    headers = message_from_bytes(sent.source)
    headers.replace_header("From", ANN)
    headers["Authentication-Results"] = f"{CHECKS}; dmarc=pass header.from=localhost"
    assert READER.verify_sender(headers).author is Author.BOT


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"Return-Path": "<>"}, "report"),
        ({"From": "MAILER-DAEMON@localhost"}, "report"),
        ({"Content-Type": "multipart/report; report-type=delivery-status"}, "report"),
        ({"From": BOT}, "this very mailbox"),
        ({"From": "help@localhost"}, "this very mailbox"),
        ({"From": "ann@localhost, bob@localhost"}, "whom it is from"),
        ({"From": "nobody"}, "whom it is from"),
        (
            {"Authentication-Results": "mx.localhost; dmarc=fail header.from=localhost"},
            "does not confirm",
        ),
        (
            {"Authentication-Results": "elsewhere; dmarc=pass header.from=localhost"},
            "does not confirm",
        ),
    ],
)
def test_reports_and_unauthenticated_mail_are_ignored(headers: dict[str, str], why: str) -> None:
    message = message_from_bytes(mail("hello", by=ANN, to=BOT).as_bytes())
    for name, value in headers.items():
        del message[name]
        message[name] = value
    with pytest.raises(MailIgnored, match=why):
        READER.verify_sender(message)


@pytest.mark.parametrize(
    ("results", "authentic"),
    [
        ("mx.localhost 1; dmarc=pass (p=REJECT) header.from=example.org", True),
        ("mx.localhost; dkim=fail header.d=example.org; dkim=pass header.d=example.org", True),
        ("mx.localhost; dkim=pass header.i=@example.org", True),
        ("MX.localhost; spf=pass smtp.mailfrom=bounces@example.org", True),
        ("mx.localhost; dkim=pass header.d=evil.org; spf=pass smtp.mailfrom=evil.org", False),
        ("mx.localhost; dkim=pass header.d=org", False),
        ("mx.localhost; dkim=none (dkim=pass header.d=example.org)", False),
        (
            'mx.localhost; spf=pass smtp.mailfrom="x; dkim=pass header.d=example.org"@evil.org',
            False,
        ),
        ("mx.localhost; dmarc=pass header.from=evil.org", False),
        ("mx.localhost; dmarc=pass", False),
        ("mx.localhost; dmarc=fail header.from=example.org; dkim=pass header.d=example.org", False),
        (
            "mx.localhost; dmarc=bestguesspass header.from=example.org; "
            "dkim=pass header.d=example.org",
            True,
        ),
        # MAIL FROM:<"x smtp.mailfrom=ann@example.org y"@evil.org>, and its quotes left out.
        ("mx.localhost; spf=pass smtp.mailfrom=x smtp.mailfrom=ann@example.org y@evil.org", False),
        ("mx.localhost; none", False),
        ("", False),
    ],
)
def test_the_sender_is_verified_by_the_trusted_server(results: str, authentic: bool) -> None:
    """Authorisation: any sender can write any From."""
    headers = message_from_string(f"Authentication-Results: {results}\n\n")
    assert is_authentic(headers, domain="example.org", authserv_id="mx.localhost") is authentic


def test_authentication_results_that_came_with_the_mail_are_ignored() -> None:
    headers = message_from_string(
        "Authentication-Results: mx.localhost; dmarc=fail header.from=example.org\n"
        "Authentication-Results: mx.localhost; dmarc=pass header.from=example.org\n\n"
    )
    assert not is_authentic(headers, domain="example.org", authserv_id="mx.localhost")


def test_any_charset_is_decoded_and_files_have_names() -> None:
    source = (
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\n"
        b"Content-Type: text/plain; charset=iso-8859-15\n\n12 \xa4\n"
        b"--b\nContent-Type: application/pdf; name==?utf-8?q?pl=C3=A4n=2Epdf?=\n\n%PDF\n"
        b"--b\nContent-Type: message/rfc822\n\nSubject: inside\n\nhello\n--b--\n"
    )
    read = parse_mail(source)
    assert read.text == "12 €"
    assert [each.name for each in read.files] == ["plän.pdf", "mail-3.eml"]
    assert b"Subject: inside" in read.files[1].data


def test_html_alone_becomes_text_and_beside_plain_text_is_not_read() -> None:
    html = b"Content-Type: text/html; charset=nonsense\n\n<p>Gr\xc3\xbc\xc3\x9fe</p>"
    assert parse_mail(html).text == "Grüße"
    both = EmailMessage()
    both.set_content("plain")
    both.add_alternative("<p>page</p>", subtype="html")
    assert parse_mail(both.as_bytes()).text.strip() == "plain"


PIECES = (
    b"=?utf-8?q?=C3?=", b"=?x?b?!!?=", b"\xff\xfe", b"\r\n\t", b"<", b">", b"(", b'"', b"\\", b"@",
    b",", b";", b":", b"charset=", b"boundary=", b"\x00", b"name*0*=utf-8''%FF", b"multipart/mixed",
    b"message/rfc822", b"base64", b"uuencode",
)  # fmt: skip


def test_any_damaged_mail_is_parsed_or_ignored() -> None:
    """Whatever is sent, what is left of it is a text, or passed over."""
    chance = random.Random(7)
    headers = {"References": "<0@x> <1@x>", "Cc": "Bob <bob@x>"}
    message = mail("hällo\n> quoted\n-- \nAnn", by=ANN, to=BOT, subject="Grüße", **headers)
    message.add_alternative("<p>hällo<blockquote>quoted</blockquote></p>", subtype="html")
    message.add_attachment(b"\x00" * 50, maintype="image", subtype="png", filename="ä.png")
    whole = message.as_bytes()
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 12)):
            at = chance.randrange(len(damaged))
            damaged[at : at + chance.choice((0, 0, 1, 30))] = chance.choice(PIECES)
        headers_alone = message_from_bytes(bytes(damaged).partition(b"\n\n")[0])
        text = parse_mail(bytes(damaged)).text
        with suppress(MailIgnored):
            letter = READER.parse(
                headers_alone, READER.verify_sender(headers_alone), text, cursor=""
            )
            msgspec.json.encode(letter)  # as it is kept


def test_an_invalid_charset_is_decoded_as_well_as_possible() -> None:
    assert parse_mail(b'Content-Type: text/plain; charset="\x00"\n\ngr\xfc\xdfe').text == "grüße"


@pytest.mark.parametrize(
    ("charset", "body"), [("utf-7", b"+2AA-"), ("unicode_escape", b"\\ud800"), ("utf-7", b"+3/8-")]
)
def test_half_a_surrogate_does_not_break_a_mail(charset: str, body: bytes) -> None:
    """Nothing can keep one: a mail that has it would be tried again for ever, and hold up all that
    has come behind it (G1)."""
    head = f"Subject: =?{charset}?q?{body.decode()}?=\nContent-Type: text/plain; charset={charset}"
    name = f"Content-Disposition: attachment; filename*={charset}''{body.decode()}"
    read_text = parse_mail(f"{head}\n\n".encode() + body).text
    headers = message_from_string(f"{head}\nFrom: {ANN}\nTo: {BOT}\n\n")
    sender = EmailParser(
        msgspec.structs.replace(SETTINGS, trust_from=True), account="default"
    ).verify_sender
    letter = READER.parse(headers, sender(headers), read_text, cursor="")
    assert letter.inbound.text.encode() and letter.thread_details.subject.encode()
    assert parse_mail(f"{name}\n\n".encode()).files[0].name.encode()


PAGES = (
    "<!--", "<!", "<a ", "<a x='", "</", "</a ", "<?", "<![CDATA[", "<![x>", "<", "<script>", "&#",
)  # fmt: skip


@pytest.mark.parametrize("piece", PAGES)
def test_unclosed_html_is_parsed_in_linear_time(piece: str) -> None:
    """Bombs: the parser of the library would look for the end of each through all that follows."""
    assert parse_mail(b"Content-Type: text/html\n\n<p>hello" + piece.encode() * 20_000).text


def test_a_page_is_read_with_all_its_oddities() -> None:
    page = (
        '<p title="a > b">one < two <!-- <p>no --> &amp; <b>three</b></p><!doctype html>'
        f'<img src="data:{"A" * 9000}"> <a href="https://x.test/?a=1&amp;b">here</a> <3'
    )
    text = parse_mail(b"Content-Type: text/html\n\n" + page.encode()).text
    assert text == "one < two & three\n\n[here](https://x.test/?a=1&b) <3"


LARGE = 5 * 2**20  # bytes: more of the same is no more work


def many(head: str, piece: bytes) -> bytes:
    return head.encode() + piece * ((LARGE - len(head)) // len(piece))


def nested(depth: int) -> str:
    return "".join(
        f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(depth)
    )


MIXED = "Content-Type: multipart/mixed; boundary=b\n\n"
QUOTED = "Content-Transfer-Encoding: quoted-printable\n\n"
PAGE = b"--b\nContent-Type: text/html\n\n" + b"<p>a" * 30_000 + b"\n"
BOMBS = {
    "lines": lambda: many("A: b\n\n", b"\n"),
    "lines within many parts": lambda: many(nested(50), b"hello\n"),
    "parts in parts": lambda: nested(3000).encode(),
    "parts": lambda: many(MIXED, b"--b\n\nx\n"),
    "what looks like parts": lambda: many(f"{MIXED}--b\n\n", b"--bx\n"),
    "mails in mails": lambda: many("", b"Content-Type: message/rfc822\n\n"),
    "reports": lambda: many("Content-Type: message/delivery-status\n\n", b"A: b\n\n"),
    "headers": lambda: many("", b"a:\n"),
    "one header": lambda: many('Content-Type: text/plain; name="', b'";'),
    "headers of parts": lambda: MIXED.encode() + (b"--b\n" + b"X" * 60_000 + b": a\n\nx\n") * 200,
    "signs in code": lambda: many(f"Content-Type: text/plain\n{QUOTED}", b"=3D=\n"),
    "a file in code": lambda: many(f"Content-Type: application/x\n{QUOTED}", b"= \n"),
    "words": lambda: many("Content-Type: text/plain; charset=utf-7\n\n", b"+AGE-"),
    "pages": lambda: many(MIXED, PAGE),
}


def work_of(read: Callable[[], object]) -> int:
    """How many functions are called by it: whatever else takes long on the way of a mail is done to
    all of its bytes at once."""
    calls = 0

    def count(frame: object, event: str, what: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        read()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("bomb", BOMBS)
def test_the_work_to_parse_a_mail_is_bounded(bomb: str) -> None:
    """Bombs: a library that looks at each line once for every part that is open is kept busy for
    half a minute by 25 MB of them."""
    headers = message_from_string(f"From: {ANN}\nIn-Reply-To: <1@x>\n\n")
    sender = EmailParser(
        msgspec.structs.replace(SETTINGS, trust_from=True), account="default"
    ).verify_sender

    source = BOMBS[bomb]()

    def read() -> None:
        text = parse_mail(source).text
        READER.parse(headers, sender(headers), text, cursor="")

    assert work_of(read) < 1_500_000


@pytest.mark.parametrize("bomb", ["lines within many parts", "parts", "words"])
def test_a_truncated_mail_says_that_it_is_truncated(bomb: str) -> None:
    assert parse_mail(BOMBS[bomb]()).text.endswith("tell its author that some of it was left out]")


def test_the_work_to_parse_endless_headers_is_bounded() -> None:
    """Authorisation: of such a list the part that was read could name another person."""
    for value in ("<" * 250_000, f"{ANN}, " + "a@b, " * 60_000, "=?utf-8?q?a?= " * 18_000):
        headers = message_from_string(f"From: {value}\nSubject: {value}\nTo: {value}\n\n")
        assert work_of(lambda h=headers: header_addresses(h, "From", "To")) < 1000
        assert header_addresses(headers, "From") == ()
        assert work_of(lambda h=headers: decoded_header(h, "Subject")) < 100_000
    results = message_from_string(f"Authentication-Results: mx {'a' * 250_000}\n\n")
    assert not is_authentic(results, domain="example.org", authserv_id="mx")


def test_parts_are_split_at_their_boundaries() -> None:
    """RFC 2046 5.1.1: a bound is a line of its own, which may have blanks behind it."""
    source = (
        "Content-Type: multipart/mixed; boundary=b\r\n\r\nbefore\r\n--b \t\r\n\r\none\r\n\r\n"
        "--bc\r\nx --b\r\n--b\r\nContent-Type: multipart/alternative; boundary=bb\r\n\r\n"
        "--bb\r\n\r\ntwo\r\n"
        "--b\r\n\r\nthree\r\n--b--\r\nbehind\r\n--b\r\n\r\nfour"
    )
    for text in (source, source.replace("\r", "")):
        assert parse_mail(text.encode()).text == "one\n\n--bc\nx --b\ntwo\nthree"
    half = source.partition("three")[0].encode() + b"th"
    assert parse_mail(half).text.endswith("two\nth")


def test_a_truncated_text_ends_with_a_whole_character() -> None:
    text = parse_mail(b"Content-Type: text/plain; charset=utf-8\n\nx" + "€".encode() * 200_000)
    assert text.text.startswith("x€€") and "�" not in text.text and "â" not in text.text


def test_damaged_base64_is_decoded_as_far_as_possible() -> None:
    head = b"Content-Transfer-Encoding: base64\n\n"
    assert [parse_mail(head + each).text for each in (b"aGVs\nbG8=", b"aGVsbG8", b"a!GVs")] == [
        "hello", "hel", "hel",
    ]  # fmt: skip


def test_an_endless_subject_is_truncated() -> None:
    """A server would refuse the answer, whose subject it is."""
    headers = message_from_string(f"From: {ANN}\nSubject: {'x' * 99_000}\n\n")
    sender = EmailParser(
        msgspec.structs.replace(SETTINGS, trust_from=True), account="default"
    ).verify_sender
    letter = READER.parse(headers, sender(headers), "hello", cursor="")
    assert len(letter.thread_details.subject) == 500 and len(letter.inbound.text) < 600


def test_a_charset_with_a_slow_decoder_is_not_used() -> None:
    text = b"a" * 1000 + b"-" + b"b9" * 100_000
    assert (
        parse_mail(b"Content-Type: text/plain; charset=punycode\n\n" + text).text == text.decode()
    )
