"""Errors of model calls are classified, and their texts say what to do."""

import re
from collections.abc import Mapping

import pytest

from holdfast.core.config.settings import Provider
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import use_catalogue
from holdfast.core.turns.model import RETRYABLE_FAULTS, ModelFailed, ModelFault
from holdfast.models import errors
from holdfast.models.target import ModelTarget
from holdfast.system.languages import PseudoCatalogue

TARGET = ModelTarget(
    provider=Provider.OPENAI,
    name="gpt-5.1",
    base_url="https://api.openai.com/v1",
    api_key=Secret("sk-very-secret"),
    key_reference="env:OPENAI_API_KEY",
)
NOW = 1_700_000_000.0


def failed(status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> ModelFailed:
    return errors.http_error(TARGET, status, body=body, headers=headers or {}, now=lambda: NOW)


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (401, b'{"error":{"message":"Incorrect API key"}}', ModelFault.AUTH),
        (403, b"", ModelFault.AUTH),
        (402, b'{"error":{"message":"Insufficient credits","code":402}}', ModelFault.AUTH),
        (429, b'{"error":{"message":"x","code":"insufficient_quota"}}', ModelFault.AUTH),
        (429, b"", ModelFault.RATE_LIMIT),
        (400, b'{"error":{"message":"x","code":"context_length_exceeded"}}',
         ModelFault.CONTEXT_TOO_LONG),
        (400, b'{"error":{"message":"prompt is too long: 210000 tokens"}}',
         ModelFault.CONTEXT_TOO_LONG),
        (400, b'{"error":{"code":400,"message":"the request exceeds the available context size",'
              b'"type":"exceed_context_size_error"}}', ModelFault.CONTEXT_TOO_LONG),
        (413, b"<html>too large</html>", ModelFault.CONTEXT_TOO_LONG),
        (400, b'{"error":{"message":"unknown field"}}', ModelFault.BAD_REQUEST),
        (400, b'{"error":{"message":"bad schema of tool billing_lookup"}}', ModelFault.BAD_REQUEST),
        (404, b'{"error":"model not found"}', ModelFault.BAD_REQUEST),
        (302, b"", ModelFault.BAD_REQUEST),
        (408, b"", ModelFault.TIMEOUT),
        (500, b"not json \xff", ModelFault.SERVER),
        (529, b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}',
         ModelFault.OVERLOADED),
    ],
)  # fmt: skip
def test_an_error_response_is_classified(status: int, body: bytes, fault: ModelFault) -> None:
    found = failed(status, body)
    assert (found.fault, found.status) == (fault, status)


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (b'{"error":{"message":"x","type":"rate_limit_error"}}', ModelFault.RATE_LIMIT),
        (b'{"error":{"message":"x","code":"rate_limit_exceeded"}}', ModelFault.RATE_LIMIT),
        (b'{"error":{"message":"x","type":"invalid_request_error"}}', ModelFault.BAD_REQUEST),
        (b'{"error":{"message":"x","code":"401"}}', ModelFault.AUTH),
        (b'{"error":{"message":"x","type":"overloaded_error"}}', ModelFault.OVERLOADED),
        (b'{"error":{"message":"x"}}', ModelFault.SERVER),
    ],
)
def test_an_error_inside_a_stream_is_classified_by_its_text(
    error: bytes, fault: ModelFault
) -> None:
    assert errors.provider_error(TARGET, error).fault is fault


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2", 2.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(value: str, seconds: float | None) -> None:
    assert failed(429, headers={"Retry-After": value}).retry_after == seconds


def test_a_refused_key_names_where_it_comes_from_and_never_the_key() -> None:
    body = b'{"error":{"message":"Incorrect API key provided: sk-very-secret"}}'
    text = str(failed(401, body))
    assert "env:OPENAI_API_KEY" in text
    assert "sk-very-secret" not in text


def test_no_text_ever_shows_the_key() -> None:
    quoted = b"<p>sk-very-secret</p>"
    for fault in (
        failed(500, quoted),
        errors.provider_error(TARGET, quoted),
        errors.network_error(TARGET, "sk-very-secret"),
        errors.undecodable_error(TARGET, quoted),
        errors.not_a_stream_error(TARGET, "text/html", quoted),
    ):
        assert "sk-very-secret" not in str(fault)


def test_each_text_says_which_model_and_what_to_do() -> None:
    assert "/new" in str(failed(413))
    assert "base_url" in str(failed(404, b'{"detail":"Not Found"}'))
    assert "Not Found" in str(failed(404, b'{"detail":"Not Found"}'))
    assert "30 s" in str(failed(429, headers={"Retry-After": "30"}))
    late = errors.timeout_error(TARGET, errors.TimeoutStage.ANSWER, "first_token_timeout", 5)
    assert "gpt-5.1" in str(late)
    assert "`first_token_timeout`" in str(late)


def test_each_part_of_a_text_is_translated() -> None:
    late = errors.timeout_error(TARGET, errors.TimeoutStage.ANSWER, "first_token_timeout", 5)
    every = [late, errors.truncated_error(TARGET), errors.network_error(TARGET, "refused")]
    every += [failed(status, b'{"error":{"message":"no"}}') for status in (400, 401, 413, 429, 500)]
    for error in every:
        with use_catalogue(PseudoCatalogue()):
            shown = error.for_person()
        while "⟦" in shown:
            shown = re.sub(r"⟦[^⟦⟧]*⟧", "", shown)
        assert not re.search(r"[a-z]{4}", shown), (str(error), shown)


def test_faults_that_a_person_must_fix_are_never_retried() -> None:
    assert (
        not {ModelFault.AUTH, ModelFault.BAD_REQUEST, ModelFault.CONTEXT_TOO_LONG}
        & RETRYABLE_FAULTS
    )
