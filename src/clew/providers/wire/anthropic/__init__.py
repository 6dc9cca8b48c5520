"""The Anthropic Messages API, as Anthropic itself, Vertex AI and Bedrock's InvokeModel speak it."""
