"""What a model reads with queries, with the gallery and with rated pairs: a prompt, and the task of its routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedModel

from cxc_eccv.encoding.open_clip import OpenClip
from cxc_eccv.encoding.text_input import NO_PROMPT, Prompt
from cxc_eccv.errors import InvalidOption
from cxc_eccv.runs.run import GALLERY, QUERY, ROLES, SYMMETRIC

DOCUMENTS = ("document", "passage", "corpus")
"""Names of saved prompts of the gallery, in sentence-transformers' order."""

SENTENCE_TRANSFORMERS_TASKS = {QUERY: "query", GALLERY: "document"}
"""Role to what sentence-transformers calls it."""

LENGTHS_BY_TASK = ("query_expansion", "query_length", "document_length")
"""Attributes of modules of sentence-transformers that treat queries and documents otherwise."""


@dataclass(frozen=True)
class RoleInput:
    """What a model reads with an item in a role: a prompt, and the task of sentence-transformers or None."""

    prompt: Prompt
    task: str | None = None


def read_roles(
    model: Any,  # noqa: ANN401 - any model
    plain: Mapping[str, str | None],
    named: Mapping[str, str | None],
) -> tuple[dict[str, dict[str, Prompt]], str | None]:
    """Side to the prompts of its roles, and ``the model`` if it saved some of them.

    Those that are ``named`` are for every side that reads text; the saved ones for sides without a ``plain`` prompt.
    """
    is_plain_model = isinstance(model, PreTrainedModel)
    saved: Mapping[str, str | None] = {} if is_plain_model else model.prompts
    prompts_of_caller = {
        role: Prompt.of(text, saved, f"{role} prompt") for role, text in named.items() if text is not None
    }
    reads_both = reads_text_with_images(model)
    for role, prompt in prompts_of_caller.items():
        if prompt.after and reads_both:
            raise InvalidOption(
                f"{role} prompt {str(prompt)!r:.200}: {type(model).__name__} reads a prompt before the item, images "
                "too; end the prompt with {}"
            )
    prompts_of_model: dict[str, Prompt] = {}
    if not is_plain_model and model.default_prompt_name is None:
        document = next(filter(None, map(saved.get, DOCUMENTS)), None)
        if QUERY not in prompts_of_caller:
            prompts_of_model[QUERY] = Prompt(saved.get("query") or "")
        if GALLERY not in prompts_of_caller:
            prompts_of_model[GALLERY] = Prompt(document or "")
    has_saved = any(prompt != NO_PROMPT for prompt in prompts_of_model.values())
    prompts = {}
    source = None
    for side in ("captions", "images") if reads_both else ("captions",):
        if has_saved and plain[side] is None:
            prompts[side] = prompts_of_model | prompts_of_caller
            source = "the model"
        else:
            prompts[side] = dict(prompts_of_caller)
    return prompts, source


def reads_text_with_images(model: Any) -> bool:  # noqa: ANN401 - any model
    """Whether a model takes a prompt beside an image."""
    return not isinstance(model, PreTrainedModel) and bool(model.supports(("image", "text")))


def reads_task(model: Any) -> bool:  # noqa: ANN401 - any model
    """Whether a sentence-transformers model encodes queries and documents otherwise, whatever their prompts."""
    if isinstance(model, PreTrainedModel | OpenClip):
        return False
    for module in model.modules():
        routes = set(getattr(module, "sub_modules", {}))
        routes.update(task for task, _ in getattr(module, "route_mappings", {}))
        has_routes = not routes.isdisjoint(SENTENCE_TRANSFORMERS_TASKS.values())
        has_lengths = any(getattr(module, name, None) for name in LENGTHS_BY_TASK)
        names_task = getattr(module, "_chat_template_declares_task", bool)
        if has_routes or has_lengths or names_task():
            return True
    return False


def plan_passes(side: str, inputs: Mapping[str, RoleInput]) -> tuple[dict[str, RoleInput], dict[str, str]]:
    """The passes over a side, by the names of their vectors, and the pass of each role that is not the gallery's.

    Equal inputs share a pass.

    Example:
        >>> plain, asks = RoleInput(Prompt()), RoleInput(Prompt("query: "))
        >>> passes, roles = plan_passes("captions", {"gallery": plain, "query": asks, "symmetric": plain})
        >>> list(passes), roles
        (['captions', 'caption_query'], {'caption_query': 'caption_query'})
    """
    passes: dict[str, RoleInput] = {}
    roles: dict[str, str] = {}
    for role, name in zip((GALLERY, QUERY, SYMMETRIC), (side, *ROLES[side]), strict=True):
        same = next((done for done, given in passes.items() if given == inputs[role]), name)
        passes.setdefault(same, inputs[role])
        if same != side:
            roles[name] = same
    return passes, roles
