"""Declares the linechat platform: the settings of an account, and how it is opened."""

from holdfast.core.config.settings import PlatformSettings, Port
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.platform_plugin import PlatformPlugin, PluginContext, SetupQuestion


class LinechatSettings(PlatformSettings, frozen=True, kw_only=True):
    token: str = ""  # a reference: a key named `token` holds a secret
    port: Port = 4040

    def __post_init__(self) -> None:
        if self.enabled and not self.token:
            raise ValueError('token is missing: write token = "env:LINECHAT_TOKEN"')


def _open(context: PluginContext[LinechatSettings]) -> Platform:
    from linechat.platform import Linechat  # noqa: PLC0415 - only where an account is enabled

    return Linechat(context.secrets["token"], context.account, context.settings.port)


PLUGIN = PlatformPlugin(
    name="linechat",
    settings=LinechatSettings,
    open=_open,
    setup_guide="Start a server (python -m linechat_server). It prints its port and a token.",
    setup_questions=(SetupQuestion(key="token", label="The token", variable="LINECHAT_TOKEN"),),
    user_id_help="their name in the chat",
)
