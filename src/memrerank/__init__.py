"""memrerank: preference memories for LLM product reranking, trained on the reranker's feedback."""

__version__ = "0.1.0"
