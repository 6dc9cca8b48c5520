"""Google's generateContent, for the Gemini API and Vertex AI."""
