"""The pages of the reference and their modules: those that users import from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One file of the reference."""

    name: str
    title: str
    intro: str
    modules: tuple[str, ...]
    """Each with everything public in it, or with the names after a colon."""


PAGES = (
    Page(
        name="sdk",
        title="Interactive sessions, clients and queries",
        intro="A whole agent for one project, and the protocol of its clients. The guide is"
        " [sdk.md](../sdk.md).",
        modules=(
            "clew.sdk.session",
            "clew.sdk.options",
            "clew.sdk.client",
            "clew.sdk.query",
            "clew.sdk.spec",
            "clew.sdk.launch",
            "clew.sdk.host",
            "clew.sdk.pipe_client:PipeSession,connect,serve",
            "clew.sdk.client_json",
            "clew.sdk.clipboard",
            "clew.sdk.agents",
            "clew.sdk.agent_setup:AgentSetup,ParentState",
            "clew.sdk.agent_runner:AgentRunner",
            "clew.sdk.self_hosting",
        ),
    ),
    Page(
        name="administration",
        title="Settings, stored sessions, logs and diagnostics",
        intro="What the `clew` subcommands do, as functions for your own programs.",
        modules=(
            "clew.sdk.settings:ProjectSettings,SettingChange,describe_settings",
            "clew.sdk.session_store",
            "clew.sdk.session_admin",
            "clew.sdk.project_rosters",
            "clew.runtime.roster",
            "clew.sdk.session_logs:LogHistory,ReplayReport,describe_event,read_history,replay_file,"
            "select_lines",
            "clew.sdk.simulation:SimulatedSession,SimulationOptions,SimulationReport,compare_cost,"
            "draw_longest,find_recordings,simulate_file",
            "clew.sdk.blind_test:BlindReport,BlindTest,BlindTestOptions,SessionReport,TestedCase,"
            "draw_report,open_blind_test",
            "clew.sdk.diagnostics:diagnose,this_machine",
            "clew.sdk.system_checks:Check,Finding,Level,Machine",
            "clew.sdk.entries",
            "clew.sdk.permission_preview",
            "clew.sdk.embedded_model",
        ),
    ),
    Page(
        name="session",
        title="Sessions",
        intro="The conversation alone, and the context engine for your own loop.",
        modules=(
            "clew.session.session",
            "clew.session.config:DataOptions,SessionOptions,SessionRef",
            "clew.session.event_bus",
            "clew.session.history",
            "clew.session.gate",
            "clew.session.rewind:Rewind,RewindOptions",
            "clew.dict_messages.fit",
            "clew.importers.reader",
            "clew.importers.recorded_session",
        ),
    ),
    Page(
        name="context",
        title="Context",
        intro="Thresholds, strategies and plans. The guide is [context.md](../context.md).",
        modules=(
            "clew.context.policy",
            "clew.context.economy",
            "clew.context.plan",
            "clew.context.strategies",
            "clew.context.strategies.tiered",
            "clew.context.strategies.sliding_window",
            "clew.context.strategies.compact",
            "clew.context.strategies.custom",
            "clew.context.cleared_results",
            "clew.context.clearing_plan",
            "clew.context.protected",
            "clew.context.file_versions",
            "clew.context.compact_instructions",
            "clew.context.summary_prompt",
        ),
    ),
    Page(
        name="values",
        title="Values",
        intro="Messages, entries, events, errors: frozen, and the same in every part of Clew.",
        modules=(
            "clew.core.messages",
            "clew.core.entries",
            "clew.core.events",
            "clew.core.task_events",
            "clew.core.tasks",
            "clew.core.results",
            "clew.core.todos",
            "clew.core.tool_states",
            "clew.core.errors",
            "clew.core.context_state",
            "clew.core.file_change",
            "clew.core.usage",
            "clew.core.permissions",
            "clew.core.models",
        ),
    ),
    Page(
        name="runtime",
        title="Background tasks",
        intro="The manager of background tasks and what runs them. The guide is"
        " [agents.md](../agents.md).",
        modules=(
            "clew.runtime.manager:BackgroundTaskManager",
            "clew.runtime.protocol",
            "clew.runtime.groups:JobGroups,is_complete",
            "clew.runtime.process_runner:ProcessRunner",
            "clew.runtime.process_tool:BackgroundProcessTool",
            "clew.runtime.log_pages:read_page,take_page",
            "clew.runtime.states:TaskChange,transition",
            "clew.runtime.clock",
        ),
    ),
    Page(
        name="stores",
        title="Stores",
        intro="Where sessions are stored. The guide is [sessions.md](../sessions.md).",
        modules=(
            "clew.stores.protocol",
            "clew.stores.task_protocol",
            "clew.stores.record",
            "clew.stores.memory",
            "clew.stores.sqlite",
            "clew.stores.postgres",
            "clew.stores",
            "clew.stores.transfer",
        ),
    ),
    Page(
        name="providers",
        title="Providers",
        intro="Adapters for model APIs. The guide is [providers.md](../providers.md).",
        modules=(
            "clew.providers.protocol",
            "clew.providers.anthropic",
            "clew.providers.openai_responses",
            "clew.providers.openai_chat",
            "clew.providers.azure",
            "clew.providers.gemini",
            "clew.providers.bedrock",
            "clew.providers.deepseek",
            "clew.providers.compatible",
            "clew.providers.profiles",
            "clew.providers.embedded.provider",
            "clew.providers.scripted",
            "clew.providers.replay",
            "clew.providers.endpoint",
            "clew.providers.prices",
        ),
    ),
    Page(
        name="tools",
        title="Tools",
        intro="What a model can call. The guide is [extending.md](../extending.md).",
        modules=(
            "clew.tools.function",
            "clew.tools.protocol",
            "clew.tools.builtin",
            "clew.tools.sandbox.selection",
            "clew.tools.sandbox.policy",
            "clew.tools.web.protocol",
        ),
    ),
    Page(
        name="safety",
        title="Permissions and hooks",
        intro="What decides about a tool call. The guide is [safety.md](../safety.md).",
        modules=(
            "clew.permissions.rules",
            "clew.permissions.policy",
            "clew.hooks.protocol",
            "clew.hooks.settings",
            "clew.hooks.context",
            "clew.hooks.runner",
        ),
    ),
    Page(
        name="commands",
        title="Commands",
        intro="Slash commands. The guides are [commands.md](../commands.md) and"
        " [extending.md](../extending.md).",
        modules=(
            "clew.extensions.commands.protocol",
            "clew.extensions.commands.task_protocol",
            "clew.extensions.commands.registry",
            "clew.extensions.commands.sources",
            "clew.extensions.commands.execute_tool",
        ),
    ),
    Page(
        name="project",
        title="Projects: instructions, tasks, memory, skills, agents",
        intro="What a folder tells its agent. The guide is [project.md](../project.md).",
        modules=(
            "clew.extensions.project.context",
            "clew.extensions.project.system_prompt",
            "clew.extensions.project.facts",
            "clew.extensions.project.tasks",
            "clew.extensions.memory.project",
            "clew.extensions.memory.events",
            "clew.extensions.memory.candidates",
            "clew.extensions.skills",
            "clew.extensions.skill_template",
            "clew.extensions.agent_definitions",
            "clew.extensions.agent_discovery",
            "clew.extensions.frontmatter",
        ),
    ),
    Page(
        name="config",
        title="Settings",
        intro="Reading and writing settings files. The guide is [settings.md](../settings.md).",
        modules=(
            "clew.config.settings",
            "clew.config.trust",
            "clew.config.providers",
            "clew.config.session_options",
            "clew.config.updates",
        ),
    ),
    Page(
        name="log",
        title="The session log",
        intro="What happened, line by line. The guide is [session-log.md](../session-log.md).",
        modules=(
            "clew.log.writer",
            "clew.log.reader",
            "clew.log.replay_state",
            "clew.log.validation",
            "clew.sdk.replay",
            "clew.sdk.replay_script",
        ),
    ),
    Page(
        name="testing",
        title="Checks for your own parts",
        intro="Conformance suites that Clew's own clients, adapters and stores pass, and fakes for"
        " tests.",
        modules=(
            "clew.testing.clients",
            "clew.testing.providers",
            "clew.testing.stores",
            "clew.testing.recall",
            "clew.testing.shared_stores",
            "clew.testing.tasks",
            "clew.testing.runners",
            "clew.testing.clock",
            "clew.testing.shared_tasks",
            "clew.testing.provider_harness",
            "clew.testing.fake_apis.protocol",
            "clew.testing.server",
            "clew.testing.fake_openai",
        ),
    ),
)
