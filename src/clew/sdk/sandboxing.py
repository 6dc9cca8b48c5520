"""What commands run in, as the settings and the caller say."""

from clew.config.settings import Settings
from clew.core.errors import ConfigError
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy


def sandbox_for(
    settings: Settings, *, mode: SandboxMode | None = None, network: bool = True
) -> Sandbox:
    """Return the sandbox; what is said here counts above the settings.

    Raises:
        ConfigError: Commands shall have no network, and no sandbox to keep them from it.
    """
    wanted = mode or SandboxMode(settings.sandbox.mode or SandboxMode.AUTO)
    if network and settings.sandbox.allow_network is not False:
        return Sandbox(SandboxPolicy(mode=wanted, network=True))
    if wanted is SandboxMode.OFF:
        raise ConfigError(
            "without the sandbox commands have the network: allow it, or leave the sandbox on"
        )
    return Sandbox(SandboxPolicy(mode=SandboxMode.ON, network=False))
