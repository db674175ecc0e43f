"""A gateway without configuration selects its model, and reports which one and why."""

import asyncio
import json
from pathlib import Path

from tests.support.gateway_process import SpawnedGateway

from holdfast.testing.misbehaving_model.process import ModelProcess

NO_CONFIGURATION = {
    "HOLDFAST_MODEL_PROVIDER": "",
    "HOLDFAST_MODEL_NAME": "",
    "HOLDFAST_MODEL_BASE_URL": "",
    "HOLDFAST_RUNNER_SANDBOX": "off",
}


async def ask(gateway: SpawnedGateway, text: str) -> str:
    async with gateway.async_client(max_retries=0) as client:
        reply = await client.chat.completions.create(
            model="holdfast",
            messages=[{"role": "user", "content": text}],
            extra_headers={"X-Holdfast-Session": "me"},
        )
    return str(reply.choices[0].message.content)


async def test_a_server_on_this_machine_answers_and_is_named(tmp_path: Path) -> None:
    with ModelProcess() as model:
        gateway = SpawnedGateway(
            tmp_path / "home",
            model=model,
            **NO_CONFIGURATION,
            HOLDFAST_MODEL_DISCOVER=model.base_url,
        )
        await asyncio.to_thread(gateway.start)
        try:
            assert await ask(gateway, "hi") == "You said: hi"
            assert model.base_url in await ask(gateway, "/model")
            shown = gateway.status()["model"]
            assert (shown["provider"], shown["name"]) == ("local", "scripted")
            assert shown["why"].endswith(f"answers at {model.base_url}")
        finally:
            await asyncio.to_thread(gateway.end)


async def test_a_fallback_answers_when_the_model_fails_permanently(tmp_path: Path) -> None:
    with ModelProcess() as model:
        second = {"provider": "local", "name": "second", "base_url": model.base_url}
        gateway = SpawnedGateway(
            tmp_path / "home", model=model, HOLDFAST_MODEL_FALLBACKS=json.dumps([second])
        )
        await asyncio.to_thread(gateway.start)
        try:
            model.script({"status": 401})
            assert await ask(gateway, "hi") == "You said: hi"
            asked = [body["model"] for body in model.requests()["requests"]]
            assert asked[:2] == [
                "scripted",
                "second",
            ]  # the title of the session is asked for later
        finally:
            await asyncio.to_thread(gateway.end)
