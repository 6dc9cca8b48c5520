"""OpenAI's Chat Completions API, in the dialects of many servers."""
