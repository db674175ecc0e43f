"""The built-in small model answers a new user's simple questions, and stops."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai.types.chat import ChatCompletion
from tests.support.gateway_process import SpawnedGateway

from holdfast.core.messages.transcript import UserMessage
from holdfast.core.turns.model import (
    EMBEDDED_MODEL,
    ModelProfile,
    ModelRequest,
    ToolSchema,
    model_profile,
)
from holdfast.models.local.server import INSTALL_COMMAND, find_model_file, fit_request
from holdfast.models.target import InvalidTarget
from holdfast.testing.misbehaving_model.process import ModelProcess

pytestmark = pytest.mark.timeout(240)  # a model is slow on a busy machine
MAX_TOKENS = 400

# Chosen before the model's profile was tuned, and none of them is one of its examples. A pattern is
# what a sensible answer consists of, from its beginning to its end.
QUESTIONS = {
    "Hello!": r"(hello|hi)\b.{0,60}",
    "What is the capital of France?": r"(the capital of France is )?Paris\.",
    "What is 2+2?": r"(2 ?\+ ?2 (is|=) ?|the answer is )?(4|four)\.",
    "Name three fruits.": r"((the )?three fruits are )?(\W*({fruit})s?\W*(and )?){{3}}",
    "What is the opposite of hot?": r"(the opposite of hot is )?cold\.",
    'Translate "good morning" to French.': r".{0,20}\bbonjour\W*( in French\.)?",
    "What is the sun?": r"the sun is a (star|celestial body|(ball|sphere) of)\b.{0,120}\.",
    "Write a short poem about the sea.": r"(?=.*\b(sea|ocean|waves)\b)([^\n]{10,80}\n){3,11}[^\n]+",
    "How many days are in a week?": r"(.{0,40}\b)?(7|seven)( days)?( in a week)?\.",
    "Who wrote Romeo and Juliet?": r".{0,90}\b(William )?Shakespeare\b.{0,20}",
}
FRUIT = "(an? )?(apple|orange|banana|grape|pear|lemon|mango|strawberr(y|ie)|cherr(y|ie)|peach|kiwi)"


def is_sensible(question: str, answer: str) -> bool:
    pattern = QUESTIONS[question].replace("{fruit}", FRUIT).replace("{{", "{").replace("}}", "}")
    lines = [line for line in answer.splitlines() if line]
    repeats = len(lines) - len(set(lines))
    return not repeats and bool(re.fullmatch(pattern, answer.strip(), re.IGNORECASE | re.DOTALL))


async def ask(gateway: SpawnedGateway, question: str, *, session: str) -> ChatCompletion:
    async with gateway.async_client(max_retries=0, timeout=100) as client:
        return await client.chat.completions.create(
            model="holdfast",
            messages=[{"role": "user", "content": question}],
            extra_headers={"X-Holdfast-Session": session},
        )


@pytest.fixture
def gateway(tmp_path: Path, model_process: ModelProcess) -> Iterator[SpawnedGateway]:
    """A gateway whose model is the built-in one, with every tool that a new home has."""
    try:
        find_model_file("")
    except InvalidTarget:
        pytest.skip(f"no real model to test against; install it: {INSTALL_COMMAND}")
    gateway = SpawnedGateway(
        tmp_path / "home",
        model=model_process,
        HOLDFAST_MODEL_NAME="",
        HOLDFAST_MODEL_BASE_URL="",
        HOLDFAST_RUNNER_SANDBOX="off",
        HOLDFAST_RUNNER_SANDBOX_OFF_AS_ROOT="true",
    )
    try:
        yield gateway.start()
    finally:
        gateway.end()


async def test_ten_simple_questions_are_answered_sensibly_and_briefly(
    gateway: SpawnedGateway,
) -> None:
    """Greedily, so each run gives the same answers. Each question begins a conversation."""
    answers, usages = {}, []
    for number, question in enumerate(QUESTIONS):
        reply = await ask(gateway, question, session=f"q{number}")
        answers[question] = str(reply.choices[0].message.content)
        assert reply.usage is not None
        usages.append(reply.usage)
    wrong = {each: text for each, text in answers.items() if not is_sensible(each, text)}
    assert not wrong
    # One that is cut off has the limit exactly: all of these ended by themselves.
    assert max(usage.completion_tokens for usage in usages) < MAX_TOKENS
    assert max(usage.prompt_tokens for usage in usages) < 250  # no tools, a short prompt


async def test_a_conversation_that_gets_another_model_gets_its_prompt_and_tools(
    gateway: SpawnedGateway, tmp_path: Path, model_process: ModelProcess
) -> None:
    reply = await ask(gateway, "Hello!", session="one")
    gateway.end()
    other = SpawnedGateway(
        gateway.home,
        model=model_process,
        HOLDFAST_RUNNER_SANDBOX="off",
        HOLDFAST_RUNNER_SANDBOX_OFF_AS_ROOT="true",
    )
    try:
        other.start()
        await ask(other, "and now", session="one")
        (request,) = other.model_requests("and now")
    finally:
        other.end()
    system, *messages = request["messages"]
    assert "gateway" in system["content"]
    assert request["tools"]
    # Without the small model's examples.
    assert [message["content"] for message in messages] == [
        "Hello!",
        reply.choices[0].message.content,
        "and now",
    ]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is 2+2?", "Two and two equals five."),
        ("What is 2+2?", "2+2 is 42."),
        ("Name three fruits.", "The answer is: 3"),
        ("Name three fruits.", "Three fruits are apples, dogs, and grapes."),
        ('Translate "good morning" to French.', "Je suis bonjour, je suis bonjour, je suis"),
        ("How many days are in a week?", "A week has 7 days (10 weeks). So, the answer is 365."),
        ("What is the sun?", "The sun is a great light that shines down on everything."),
        ("What is the capital of France?", "The capital of France is Paris, not France."),
        ("Write a short poem about the sea.", "The sea is a sea.\n" * 4),
    ],
)
def test_wrong_and_rambling_answers_are_told_from_sensible_ones(question: str, answer: str) -> None:
    assert not is_sensible(question, answer)


def test_no_question_is_one_of_the_examples() -> None:
    examples = model_profile(EMBEDDED_MODEL).examples
    assert not {message.text for message in examples} & set(QUESTIONS)


def test_a_request_is_fitted_to_what_its_model_can_do() -> None:
    tools = (ToolSchema(name="t", description="", parameters={"type": "object"}),)
    request = ModelRequest(system="", messages=(UserMessage(text="Hi"),), tools=tools)
    fitted = fit_request(request, ModelProfile(uses_tools=False, max_output_tokens=9))
    assert (fitted.tools, fitted.max_output_tokens) == ((), 9)
    assert fit_request(fitted, ModelProfile(max_output_tokens=10)).max_output_tokens == 9
    assert fit_request(request, ModelProfile()) == request
