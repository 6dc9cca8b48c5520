import gzip
import json
import sys
from pathlib import Path

import pytest

from clew.core.errors import (
    ContextOverflow,
    ProviderBusy,
    ProviderDenied,
    ProviderRejected,
    SignatureRejected,
)
from clew.providers.http_errors import error_for
from clew.providers.retry import retry_after
from tests.rows import each_row

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the recordings are not here")


@pytest.mark.req("PRV-4")
@each_row(
    ("status", "kind"),
    [
        (400, ProviderRejected),
        (401, ProviderDenied),
        (402, ProviderDenied),
        (403, ProviderDenied),
        (404, ProviderRejected),
        (413, ContextOverflow),
        (429, ProviderBusy),
        (500, ProviderBusy),
        (502, ProviderBusy),
        (503, ProviderBusy),
        (504, ProviderBusy),
        (529, ProviderBusy),
    ],
)
def test_the_status_says_what_to_do(status: int, kind: type[Exception]) -> None:
    error = error_for(status, '{"error": {"message": "the words of the host"}}', {}, "host")

    assert type(error) is kind
    assert error.status == status
    assert "the words of the host. " in str(error)
    assert str(error).endswith(".")


@each_row(
    ("body", "words"),
    [
        ('{"error": {"message": "m"}}', "m"),
        ('{"error": "m"}', "m"),
        ('{"message": "m"}', "m"),
        ('{"detail": "m"}', "m"),
        ('[{"error": {"message": "m"}}]', "m"),
        ("<html>\n m</html>", "<html> m</html>"),
        ("", "request Check"),
    ],
)
def test_an_error_body_of_any_shape_is_quoted(body: str, words: str) -> None:
    assert words in str(error_for(400, body, {}, "host")).replace(".", "")


def test_long_words_are_cut() -> None:
    message = str(error_for(400, "x" * 10_000, {}, "host"))

    assert "x" * 500 + "…" in message
    assert "x" * 501 not in message


def test_used_up_credit_is_not_worth_waiting_for() -> None:
    body = '{"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}'

    assert isinstance(error_for(429, body, {}, "host"), ProviderDenied)


def test_a_wrong_key_is_recognised_behind_a_plain_400() -> None:
    body = '{"code": "invalid-argument", "error": "Incorrect API key provided."}'

    assert isinstance(error_for(400, body, {}, "host"), ProviderDenied)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        (
            {
                "Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT",
                "Date": "Wed, 21 Oct 2015 07:28:00 GMT",
            },
            30.0,
        ),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT"}, None),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
def test_the_pause_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@each_row(
    "message",
    [
        "max_tokens is too large: 200000. This model supports at most 16384 completion tokens.",
        "Invalid 'temperature': decimal below minimum value.",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "tools: too many tools, the maximum is 128",
        "The file is too long.",
        "Range of max_tokens should be [1, 8192]",
        "max_tokens (200000) exceeds the limit of 128000",
        "Invalid 'tools[0].function.name': string too long. Expected maximum length 64.",
        "The name exceeds max length of 64 characters",
        "Input should be greater than or equal to 1024",
        "tools.0.description: prompt exceeds maximum length 1024",
        "messages[3].content[0].text: input is too long",
        "`max_new_tokens` must be <= 512. Given: 1024",
        "max_tokens exceeds the model's limit of 8192",
        "The total number of tools exceeds the limit of 128",
    ],
)
def test_an_ordinary_rejection_is_not_an_overflow(message: str) -> None:
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}})

    assert type(error_for(400, body, {}, "host")) is ProviderRejected


REPORTED_LIMITS = [
    # LM Studio, by version
    ("The number of tokens to keep from the initial prompt is greater than the context length"
     " (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length.", 4_096),
    ("Trying to keep the first 9 tokens when context the overflows. However, the model is loaded"
     " with context length of only 7866 tokens, which is not enough.", 7_866),
    # vLLM
    ("The decoder prompt (length 21535) is longer than the maximum model length of 16384.", 16_384),
    ("Prompt length of 5016 is longer than the maximum model length of 4096", 4_096),
    # Qwen
    ("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
     129_024),
    # Kimi
    ("Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)",
     262_144),
    # GitHub Copilot
    ("prompt token count of 136,442 exceeds the limit of 128000", 128_000),
    # Together
    ("The input (300 tokens) is longer than the model's context length (200 tokens).", 200),
    # Mistral
    ("Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum"
     " context length", 32_768),
    # LiteLLM, Fireworks, SGLang, Cloudflare, Volcano Engine, SiliconFlow, TGI, Cerebras
    ("Requested token count exceeds the model's maximum context length of 131072 tokens.", 131_072),
    ("The prompt is too long: 140000, model maximum context length: 131071", 131_071),
    ("Input length (265330 tokens) exceeds the maximum allowed length (262144 tokens).", 262_144),
    ("The estimated number of input and maximum output tokens (9000) exceeded this model context"
     " window limit (8000).", 8_000),
    ("Input length 203743 exceeds the maximum length 202752", 202_752),
    ("length of prompt_tokens (132000) must be less than max_seq_len (131072).", 131_072),
    ("Input validation error: `inputs` must have less than 4095 tokens. Given: 5000", 4_095),
    ("Please reduce the length of the messages or completion. Current length is 9000 while limit"
     " is 8192", 8_192),
    # vLLM, newer, and its Responses API
    ("You passed 40961 input tokens and requested 0 output tokens. However, the model's context"
     " length is only 40960 tokens, resulting in a maximum input length of 40960 tokens.", 40_960),
    ("This model's maximum context length is 262144 tokens. However, you requested 0 output tokens"
     " and your prompt contains at least 262145 input tokens.", 262_144),
    ("The engine prompt length 227861 exceeds the max_model_len 131072. Please reduce prompt.",
     131_072),
    # Vertex AI, TGI, OpenAI, llama-cpp-python
    ("Unable to submit request because the input token count is 135538 but model only supports up"
     " to 131072. Reduce the input token count and try again.", 131_072),
    ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"
     " `inputs` tokens and 20 `max_new_tokens`", 4_096),
    ("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000"
     " tokens.", 272_000),
    ("Requested tokens (9437) exceed context window of 8192", 8_192),
    # Bedrock (OpenAI models, Titan), Cohere, Together, DeepSeek, OpenRouter, TensorRT-LLM, xAI
    ("prompt tokens (1200008) exceed model maximum (1050000) for openai.gpt-5", 1_050_000),
    ("Too many input tokens. Max input tokens: 8192, request input token count: 8210", 8_192),
    ("Too many tokens: the total number of tokens in the prompt exceeds the limit of 4081.", 4_081),
    ("total tokens exceeds the model's max of 4096", 4_096),
    ("Failed to start generation: The input token count (11) plus the requested output count"
     " (1048573) exceeds the model's maximum context length (1048576)", 1_048_576),
    ("This model's maximum context length is 131072 tokens. However, you requested 131134 tokens"
     " (122942 in the messages, 8192 in the completion).", 131_072),
    ("This endpoint's maximum context length is 163840 tokens. However, you requested about 170000"
     " tokens", 163_840),
    ("The sum of prompt length (9000.0), query length (0) should not exceed max_num_tokens (8192)",
     8_192),
    ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
     131_072),
    ("Number of tokens (757) exceeded maximum context length (512).", 512),
    ("The request exceeds the maximum number of input tokens (8192)", 8_192),
    ("total tokens of input (300000) exceed max_seq_len 262144", 262_144),
    # Anthropic, with the answer counted
    ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input"
     " length or `max_tokens` and try again", 200_000),
]  # fmt: skip


@pytest.mark.req("CMP-9", "PRV-4")
@each_row(("message", "limit"), REPORTED_LIMITS)
def test_hosts_report_their_window_in_many_words(message: str, limit: int) -> None:
    overflow = error_for(400, json.dumps({"error": message}), {}, "host")

    assert isinstance(overflow, ContextOverflow)
    assert overflow.limit == limit


@pytest.mark.req("CMP-9", "PRV-4")
@each_row(
    "error",
    [
        # LM Studio and Groq without a number, Z.ai with a code of its own
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        {"message": "Please reduce the length of the messages or completion.", "code": None},
        {"code": "1261", "message": "Prompt exceeds max length"},
        {"code": 1261, "message": "…"},
        {"message": "Prompt exceeds max length"},
        # MiniMax, Doubao, Copilot
        {"message": "invalid params, context window exceeds limit (2013)"},
        {"message": "Total tokens of image and text exceed max message tokens."},
        {"message": "too many", "code": "model_max_prompt_tokens_exceeded"},
        # Ollama, Bedrock, LiteLLM
        "the input length exceeds the context length",
        "prompt too long; exceeded max context length by 1234 tokens",
        {"message": "ValidationException: The input is too long"},
        {"message": "Input exceeds the max input token limit"},
        {"message": "Please reduce the length of the input messages."},
        {"message": "Input too long for model"},
        {"message": "litellm.ContextWindowExceededError: too long"},
        {"message": "model2.5: prompt is too long"},
        # OpenRouter repeats the words of the provider behind it
        {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": '{"error": {"message": "prompt is too long: 9 tokens"}}'},
        },
    ],
)
def test_an_overflow_without_a_number_is_recognised(error: object) -> None:
    overflow = error_for(400, json.dumps({"error": error}), {}, "host")

    assert isinstance(overflow, ContextOverflow)
    assert overflow.limit is None


@pytest.mark.req("CMP-9", "PRV-4")
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (429, "Request too large for gpt-4o in organization org-1 on tokens per min (TPM):"),
        (413, "Request too large for model `x` in organization `o` on tokens per minute (TPM):"),
        (None, "Request too large for gpt-5 (for limit gpt-5) on tokens per min (TPM):"),
    ],
)
def test_a_request_above_the_rate_limit_is_too_long_for_ever(
    status: int | None, words: str
) -> None:
    message = f"{words} Limit 30000, Requested 31538. The input or output tokens must be reduced."
    error = {"message": message, "type": "tokens", "code": "rate_limit_exceeded"}
    overflow = error_for(status, json.dumps({"error": error}), {}, "openai")

    assert isinstance(overflow, ContextOverflow)
    assert (overflow.limit, overflow.is_account_limit) == (30_000, True)


@pytest.mark.req("CMP-9", "PRV-4")
@pytest.mark.parametrize("status", [400, 413, 422, 429, 500, None])
def test_the_code_for_an_overflow_counts_with_any_status(status: int | None) -> None:
    error = {"message": "maximum context length is 8000", "code": "context_length_exceeded"}
    overflow = error_for(status, json.dumps({"error": error}), {}, "host")

    assert isinstance(overflow, ContextOverflow)
    assert (overflow.limit, overflow.is_account_limit) == (8_000, False)


@pytest.mark.req("PRV-4")
@pytest.mark.parametrize(
    "message",
    [
        "Rate limit reached for gpt-4 on tokens per min (TPM): Limit 10000, Used 8554,"
        " Requested 3082. Please try again in 9.816s.",
        "Too many tokens, please wait before trying again.",
        "This request would exceed your rate limit of 30,000 input tokens per minute.",
    ],
)
def test_a_rate_limit_that_passes_is_no_overflow(message: str) -> None:
    coded = {"message": message, "code": "too_many_tokens"}

    assert type(error_for(429, json.dumps({"error": coded}), {}, "host")) is ProviderBusy
    assert type(error_for(429, json.dumps({"error": message}), {}, "host")) is ProviderBusy


@pytest.mark.req("PRV-4")
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (
            400,
            {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the Anthropic API. Please go"
                " to Plans & Billing to upgrade or purchase credits.",
            },
        ),
        (429, {"code": "1113", "message": "Insufficient balance or no resource package."}),
        (429, {"type": "exceeded_current_quota_error", "message": "Your account is suspended."}),
        (400, {"code": "Arrearage", "message": "Access denied, check your account."}),
    ],
)
def test_an_account_without_credit_is_denied(status: int, error: dict[str, str]) -> None:
    assert isinstance(error_for(status, json.dumps({"error": error}), {}, "host"), ProviderDenied)


@pytest.mark.req("CMP-9")
def test_the_embedded_server_reports_overflow_in_its_own_words() -> None:
    body = (
        '{"error":{"code":400,"message":"request (9031 tokens) exceeds the available context'
        ' size (8192 tokens), try increasing it","type":"exceed_context_size_error"}}'
    )

    assert isinstance(error_for(400, body, {}, "embedded"), ContextOverflow)


@needs_data
@pytest.mark.req("CMP-9")
def test_every_recorded_overflow_is_recognised() -> None:
    cases = json.loads((DATA / "context_overflow_errors.json").read_text(encoding="utf-8"))

    missed = [
        case["host"]
        for case in cases
        if not isinstance(
            error_for(case["status"], case["body"], {}, case["host"]), ContextOverflow
        )
    ]

    assert len(cases) == 9
    assert missed == []


@needs_data
@pytest.mark.req("CMP-9")
def test_no_other_recorded_error_looks_like_overflow() -> None:
    known = json.loads((DATA / "context_overflow_errors.json").read_text(encoding="utf-8"))
    files = {case["file"] for case in known}
    seen, misread = 0, []
    with gzip.open(DATA / "wire_records.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            overflow = any(file.endswith(record["file"]) for file in files)
            if record["status"] < 400 or overflow:
                continue
            seen += 1
            error = error_for(record["status"], record["response_text"], {}, "host")
            if isinstance(error, ContextOverflow):
                misread.append(record["file"])

    sys.stdout.write(f"{seen - len(misread)}/{seen} other errors told apart\n")
    assert seen > 40
    assert misread == []


@pytest.mark.req("RSN-5")
@each_row(
    "message",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.3.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`.",
        "messages.1.content.2: Invalid `data` in `redacted_thinking` block",
        "`thinking` or `redacted_thinking` blocks in the latest message cannot be modified.",
        "Thought signature is not valid.",
        "Function call is missing a thought_signature in functionCall parts.",
        "Corrupted thought signature.",
        "The encrypted content gAAAA could not be verified. Reason: it could not be decrypted.",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item",
    ],
)
def test_a_signature_that_is_refused_has_an_error_of_its_own(message: str) -> None:
    body = json.dumps({"error": {"message": message}})

    assert isinstance(error_for(400, body, {}, "host"), SignatureRejected)


@pytest.mark.parametrize(
    "message",
    [
        "The request signature we calculated does not match the signature you provided.",
        "The security token included in the request is invalid.",
        "thinking.budget_tokens: Input should be greater than or equal to 1024",
    ],
)
def test_other_signatures_are_another_matter(message: str) -> None:
    body = json.dumps({"error": {"message": message}})

    assert not isinstance(error_for(400, body, {}, "host"), SignatureRejected)


@pytest.mark.req("PRV-4")
def test_a_pause_that_is_asked_for_in_the_body_is_known() -> None:
    body = '{"error": {"code": 429, "details": [{"retryDelay": "48s"}]}}'
    busy = error_for(429, body, {}, "gemini")

    assert isinstance(busy, ProviderBusy)
    assert busy.retry_after == 48.0


@needs_data
@pytest.mark.req("PRV-4")
def test_an_overflow_says_what_the_model_can_take_where_the_provider_does() -> None:
    recorded = json.loads((DATA / "context_overflow_errors.json").read_text(encoding="utf-8"))
    limits = {}
    for each in recorded:
        overflow = error_for(each["status"], each["body"], {}, "host")
        assert isinstance(overflow, ContextOverflow)
        limits[each["model"]] = overflow.limit

    assert {limit for limit in limits.values() if limit} == {200_000, 288_000, 1_048_565, 1_048_576}
