"""Which answers of an API can never turn into a success, and what the user can do about them."""

# Names of models that are gone, with what to say of them.
RETIRED = {
    "o4-mini": "OpenAI ended that model's API on 2026-10-23; reranker=gpt names its successor. "
}
PARAMETER_CODES = {"unsupported_parameter", "unsupported_value", "unknown_parameter"}

# What does without the model, by the config node that the model is set in.
WITHOUT = {
    "reranker": "choose another judge (reranker=embedding needs none)",
    "rewriter": "set data.rewrite=none to keep the queries as they are",
}


def fatal_reason(
    status: int | None,
    code: str | None,
    parameter: str | None,
    model: str,
    api_key_env: str,
    group: str = "reranker",
) -> str | None:
    """What is wrong and what to change; None where another try may succeed.

    Args:
        status: of the HTTP response; None without a response.
        code: OpenAI's error code, from the response's body.
        parameter: the request's parameter that the error is about.
        model: as configured.
        api_key_env: the environment variable that the key was read from; may be empty.
        group: the config node that all of these are set in, one of `WITHOUT`.
    """
    if status in (401, 403):
        return (
            f"the key from ${api_key_env or '(no variable)'} was refused; put a valid key into "
            f"that variable, or name another variable in {group}.api_key_env"
        )
    if code == "insufficient_quota":
        return (
            f"the account behind ${api_key_env} has no credit left; add credit, or {WITHOUT[group]}"
        )
    if status == 404:
        retired = next((why for name, why in RETIRED.items() if name in model), "")
        return (
            f"there is no such model. {retired}Set {group}.model and {group}.base_url to a "
            "model that is served"
        )
    if code in PARAMETER_CODES:
        return f"it refuses a setting; set {group}.{parameter} to null to leave it out"
    return None
