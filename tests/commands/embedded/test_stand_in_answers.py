"""What the stand-in says in each of its roles."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from commands.embedded import cast, shell
from commands.embedded.answer import CHAT, EMBEDDINGS, MODELS, RESPONSES, Knobs, answer
from tests.commands.embedded.asking import (
    COMMAND,
    TASK,
    agent,
    chat,
    closed,
    continued,
    embeddings,
    example,
    judgment,
    responses,
    simulation,
    structured,
    turn,
)

TEXT_TASK = "Create a file /srv/dupes.txt with duplicate lines. Sort the lines and write unique ones to /srv/unique.txt"
PLANNED = len(shell.steps(TEXT_TASK, "text"))


def message(request: dict[str, Any], knobs: Knobs | None = None) -> dict[str, Any]:
    status, body = answer(CHAT, request, knobs or Knobs())
    assert status == 200, body
    found: dict[str, Any] = body["choices"][0]["message"]
    return found


def simulated(*args: Any, knobs: Knobs | None = None, **kwargs: Any) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(message(simulation(*args, **kwargs), knobs)["content"])
    return read


def score(*args: Any, **kwargs: Any) -> float:
    text = message(judgment(*args, **kwargs))["content"]
    found: float = json.loads(text)["axes"]["task-success"]["score"]
    return found


def commands_of(said: dict[str, Any]) -> list[str]:
    return [json.loads(call["function"]["arguments"])["command"] for call in said.get("tool_calls") or ()]


def episode(task: str, model: str, knobs: Knobs | None = None, *, output: str = "ok\n") -> list[list[str]]:
    """Play a candidate against outputs that are all the same; return its commands turn by turn, the last one none."""
    request, turns = agent(task, model), []
    for _ in range(12):
        said = message(request, knobs)
        turns.append(commands_of(said))
        if not turns[-1]:
            return turns
        request = continued(request, said, *[output] * len(turns[-1]))
    return turns


def test_every_answer_says_that_a_stand_in_wrote_it() -> None:
    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        (CHAT, agent()),
        (RESPONSES, responses()),
        (EMBEDDINGS, embeddings()),
        (MODELS, {}),
    )
    for api, request in asked:
        status, body = answer(api, request)
        assert status == 200
        assert body["system_fingerprint"].startswith("exp-stand-in")


def test_a_candidate_acts_on_what_the_task_names() -> None:
    (command,) = commands_of(message(agent()))
    assert "https://registry.npmjs.org/prettier" in command
    assert "/srv/prettier.txt" in command


def test_a_candidate_reads_what_came_back_and_closes() -> None:
    asked = agent()
    closing = message(continued(asked, message(asked), "3.1.0\n"))
    assert "tool_calls" not in closing
    assert "3.1.0" in closing["content"]


def test_a_candidate_tries_once_more_after_a_failure_and_then_says_that_it_failed() -> None:
    turns = episode(TASK, cast.LARGE, output="curl: error, not found")
    assert len(turns) == 3
    assert turns[0][0] in turns[1][0]


def test_a_candidate_without_the_skill_closes_without_having_done_anything() -> None:
    turns = episode(TASK, cast.SMALL)
    assert turns[0] in (["pwd"], ["ls -la"])
    assert turns[1:] == [[]]


def test_the_small_candidate_equals_the_large_one_on_some_topics_and_not_on_others() -> None:
    assert episode(TEXT_TASK, cast.SMALL) == episode(TEXT_TASK, cast.LARGE)
    assert episode(TASK, cast.SMALL) != episode(TASK, cast.LARGE)


def test_the_small_candidate_is_ten_times_cheaper_than_the_large_one() -> None:
    assert float(cast.PRICES[cast.SMALL].input) * 10 == float(cast.PRICES[cast.LARGE].input)
    assert float(cast.PRICES[cast.SMALL].output) * 10 == float(cast.PRICES[cast.LARGE].output)


@pytest.mark.parametrize(
    ("task", "topic"),
    [
        (TASK, "registry"),
        (TEXT_TASK, "text"),
        ("Use curl to get the emojis of the GitHub API", "web"),
        ("Write a Python script that implements a class", "code"),
        ("Make a directory and a symlink to it", "files"),
        ("Run python, then curl", "web"),
        ("", "files"),
    ],
)
def test_what_a_task_is_about_is_read_off_its_words(task: str, topic: str) -> None:
    assert cast.TOPICS[cast.topic(task)] == topic


def test_any_other_name_has_fixed_skills_of_its_own() -> None:
    pinned = {
        "deepseek-v4-flash": (286, 215, 218, 952, 255),
        "deepseek-ai/DeepSeek-V4-Flash-0731": (942, 952, 951, 952, 197),
        "gpt-5.6-luna": (933, 956, 930, 246, 223),
    }
    assert {name: cast.skills(name) for name in pinned} == pinned


def test_of_two_models_the_more_skilled_does_all_that_the_other_does() -> None:
    tasks = [f"{TASK} number {number}" for number in range(200)]
    weaker = {task for task in tasks if cast.able(cast.SMALL, task)}
    stronger = {task for task in tasks if cast.able(cast.LARGE, task)}
    assert weaker < stronger
    assert len(stronger) > 170


def test_independent_fetches_are_called_in_parallel_unless_that_is_switched_off() -> None:
    task = "Use curl to fetch https://example.org/a and https://example.org/b from the API"
    assert len(commands_of(message(agent(task)))) == 2
    assert len(commands_of(message(agent(task, parallel_tool_calls=False)))) == 1


def test_outputs_belong_to_the_calls_that_they_name_in_any_order() -> None:
    asked = agent("Use curl to fetch https://example.org/a and https://example.org/b from the API")
    told = continued(asked, message(asked), "first", "second")
    *before, one, other = told["messages"]
    assert "second" in message(told)["content"]
    assert "second" in message({**told, "messages": [*before, other, one]})["content"]


def test_a_new_task_in_the_same_conversation_is_acted_on_anew() -> None:
    asked = agent()
    told = continued(asked, message(asked), "3.1.0\n")
    told["messages"] += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": TEXT_TASK}]
    assert commands_of(message(told)) == commands_of(message(agent(TEXT_TASK)))


def test_a_tool_that_must_be_called_is_called_and_one_that_must_not_is_not() -> None:
    other = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
    forced = agent(tool_choice={"type": "function", "function": {"name": "look_up"}})
    forced["tools"] = [*forced["tools"], other]
    assert message(forced)["tool_calls"][0]["function"]["name"] == "look_up"
    assert "tool_calls" not in message(agent(tool_choice="none"))


def test_of_several_tools_the_one_whose_words_the_task_shares_is_called() -> None:
    def tool(name: str, description: str) -> dict[str, Any]:
        parameters = closed(query={"type": "string"})
        return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

    offered = [tool("send_mail", "Send a message to a person"), tool("list_branches", "List branches of a repository")]
    said = message(agent("Use the GitHub API to list the branches of 'torvalds/linux'", tools=offered))
    (call,) = said["tool_calls"]
    assert call["function"]["name"] == "list_branches"
    assert json.loads(call["function"]["arguments"]) == {"query": "torvalds/linux"}


def test_arguments_fit_the_schema_of_a_function_that_takes_no_command() -> None:
    parameters = closed(
        url={"type": "string"},
        path={"type": "string"},
        limit={"type": "integer", "minimum": 3},
        mode={"type": "string", "enum": ["slow", "fast"]},
        flags={"type": "array", "items": {"type": "string"}},
        deep={"type": ["boolean", "null"]},
    )
    tool = {"type": "function", "function": {"name": "fetch", "parameters": parameters, "strict": True}}
    task = "Use the fast mode to download https://example.org/x to /srv/x.txt with the API"
    said = message(agent(task, tools=[tool]))
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {
        "url": "https://example.org/x",
        "path": "/srv/x.txt",
        "limit": 3,
        "mode": "fast",
        "flags": [],
        "deep": False,
    }


@pytest.mark.parametrize("model", [cast.SMALL, cast.LARGE])
@pytest.mark.parametrize("task", [TASK, TEXT_TASK, ""])
def test_with_two_turns_an_episode_is_one_call_and_a_closing_message(model: str, task: str) -> None:
    turns = episode(task, model, Knobs(turns=2))
    assert [len(calls) for calls in turns] == [1, 0]


def test_with_turns_set_no_two_models_write_the_same() -> None:
    written = {episode(TEXT_TASK, model, Knobs(turns=2))[0][0] for model in (cast.SMALL, cast.MEDIUM, cast.LARGE)}
    assert len(written) == 3


def test_with_turns_that_end_as_done_each_turn_is_a_call_and_the_world_model_ends_them() -> None:
    knobs = Knobs(turns=2, ends="done")
    asked = agent()
    first = message(asked, knobs)
    second = message(continued(asked, first, "one"), knobs)
    assert len(commands_of(first)) == len(commands_of(second)) == 1
    near = example(COMMAND, "3.1.0")
    assert simulated(COMMAND, near, knobs=knobs)["done"] is False
    assert simulated(COMMAND, near, conversation=[turn()], knobs=knobs)["done"] is True


def test_with_turns_that_end_finally_the_world_model_never_ends_them() -> None:
    assert simulated(COMMAND, example(COMMAND, "3.1.0"), knobs=Knobs(turns=2))["done"] is False


def test_a_request_without_tools_is_answered_in_words() -> None:
    assert (
        message(chat(messages=[{"role": "user", "content": "Reply with the single word ready."}]))["content"] == "ready"
    )
    assert "stand-in" in message(chat())["content"]


def test_the_world_model_copies_the_example_most_like_the_action() -> None:
    far = example("ls -la /var/log", "total 0\n", task="List the log files")
    near = example(COMMAND.replace("prettier", "eslint"), "9.0.0\n")
    assert simulated(COMMAND, far, near) == {"observation": "9.0.0\n", "error": False, "done": True}


def test_of_equally_near_examples_the_first_is_copied() -> None:
    first, second = example(COMMAND, "3.1.0\n"), example(COMMAND, "3.2.0\n")
    assert simulated(COMMAND, first, second)["observation"] == "3.1.0\n"
    assert simulated(COMMAND, second, first)["observation"] == "3.2.0\n"


def test_the_world_model_copies_errors_too_and_an_error_is_never_done() -> None:
    near = example(COMMAND, "curl: (6) Could not resolve host\n", error=True)
    assert simulated(COMMAND, near) == {"observation": near["observation"], "error": True, "done": False}


def test_the_world_model_is_not_done_while_something_that_the_task_names_is_untouched() -> None:
    task = "Copy /srv/a.txt to /srv/b.txt"
    near = example("cat /srv/a.txt", "text\n", task=task)
    assert simulated("cat /srv/a.txt", near, task=task)["done"] is False
    earlier = [turn("cp /srv/a.txt /srv/b.txt")]
    assert simulated("cat /srv/a.txt", near, task=task, conversation=earlier)["done"] is True


@pytest.mark.parametrize("examples", [[], [example("make -j4 all", "cc main.c\n", task="Build the program")]])
def test_the_world_model_abstains_in_plain_words_when_no_example_is_near(examples: list[dict[str, Any]]) -> None:
    said = simulated(COMMAND, *examples)
    assert "unknown" in said["observation"]
    assert (said["error"], said["done"]) == (False, False)


def test_an_example_of_another_tool_is_not_copied() -> None:
    other = {**example(COMMAND, "3.1.0\n"), "tool": "browser"}
    assert "unknown" in simulated(COMMAND, other)["observation"]


def test_a_simulation_that_cannot_be_read_is_said_to_be_unreadable() -> None:
    asked = simulation(COMMAND)
    asked["messages"][1]["content"] = "not JSON"
    assert "could be read" in json.loads(message(asked)["content"])["observation"]


def test_the_judge_pays_for_touching_what_the_task_names() -> None:
    assert score(turn()) == 1
    assert score(turn("ls -la", "total 0\n"), final="I didn't find out.") < 0.4
    assert score(turn("ls -la", "total 0\n")) < score(turn("echo prettier")) < score(turn())


def test_the_judge_takes_off_for_errors_ends_that_were_cut_and_unknown_outcomes() -> None:
    unknown = simulated(COMMAND)["observation"]
    whole = score(turn())
    assert score(turn(error=True)) < whole
    assert score(turn(error=True), turn()) < whole
    assert score(turn(), ended="cut") < whole
    assert score(turn(), final="", ended="final") < whole
    assert score(turn(observation=unknown)) < whole


def test_the_judge_gives_nothing_for_nothing() -> None:
    assert score(final=None) == 0
    assert score(final="  ") == 0


def test_a_recorded_trace_needs_no_closing_message() -> None:
    assert score(turn(), final=None, ended="recorded") == 1


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(1, 5, "5"), (-1, 1, "1"), (0, "0.25", "0.25"), (0, 1000, "1000")]
)
def test_scores_are_on_the_scale_of_their_axis(low: Any, high: Any, expected: str) -> None:
    text = message(judgment(turn(), low=low, high=high))["content"]
    assert f'"score":{expected},' in text


def test_every_axis_of_a_rubric_is_judged() -> None:
    asked = judgment(turn())
    question = json.loads(asked["messages"][1]["content"])
    question["rubric"]["axes"].append({"name": "manners", "low": 0, "high": 1})
    asked["messages"][1]["content"] = json.dumps(question)
    assert set(json.loads(message(asked)["content"])["axes"]) == {"task-success", "manners"}


def test_a_role_asked_for_in_words_is_played_too() -> None:
    asked = simulation(COMMAND, example(COMMAND, "3.1.0\n"))
    del asked["response_format"]
    asked["messages"][0]["content"] += " Reply with one JSON object. It is a world_model_reply."
    assert json.loads(message(asked)["content"])["observation"] == "3.1.0\n"


def test_another_schema_gets_the_least_value_that_it_allows() -> None:
    schema = closed(
        kind={"type": "string", "enum": ["b", "a"]},
        count={"type": "integer", "minimum": 2},
        rows={"type": "array", "items": closed(ok={"type": "boolean"}), "minItems": 1},
        inner={"$ref": "#/$defs/inner"},
        maybe={"anyOf": [{"type": "null"}, {"type": "string"}]},
        fixed={"const": 7},
    )
    schema["$defs"] = {"inner": closed(text={"type": "string"})}
    said = message(chat(response_format=structured("mine", schema)))
    assert json.loads(said["content"]) == {
        "kind": "b",
        "count": 2,
        "rows": [{"ok": False}],
        "inner": {"text": ""},
        "maybe": None,
        "fixed": 7,
    }


def test_a_reply_beyond_the_limit_is_cut_and_says_so() -> None:
    status, body = answer(CHAT, agent(max_tokens=9))
    assert status == 200
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] <= 9
    with pytest.raises(json.JSONDecodeError):
        json.loads(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
    _, cut = answer(RESPONSES, responses(max_output_tokens=16))
    assert (cut["status"], cut["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_a_reply_ends_at_a_stop_sequence() -> None:
    whole = message(chat())["content"]
    cut = message(chat(stop=["without", "nowhere"]))["content"]
    assert cut == whole[: whole.index("without")]


def test_several_choices_are_given_and_paid_when_asked_for() -> None:
    _, one = answer(CHAT, chat())
    _, three = answer(CHAT, chat(n=3))
    assert [choice["index"] for choice in three["choices"]] == [0, 1, 2]
    assert three["usage"]["completion_tokens"] == 3 * one["usage"]["completion_tokens"]


def test_reasoning_is_counted_within_the_output_and_grows_with_the_effort() -> None:
    spent = []
    for effort in ("low", "high"):
        _, body = answer(RESPONSES, responses(reasoning={"effort": effort}))
        usage = body["usage"]
        assert usage["output_tokens_details"]["reasoning_tokens"] < usage["output_tokens"]
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
        spent.append(usage["output_tokens_details"]["reasoning_tokens"])
    assert 0 < spent[0] < spent[1]


def test_reasoning_may_use_up_the_limit_and_leave_nothing_to_say() -> None:
    _, body = answer(CHAT, {**judgment(turn()), "max_completion_tokens": 200})
    choice, usage = body["choices"][0], body["usage"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", "")
    assert usage["completion_tokens"] == usage["completion_tokens_details"]["reasoning_tokens"] == 200
    _, whole = answer(CHAT, judgment(turn()))
    spoken = whole["usage"]["completion_tokens"] - 256
    assert spoken < 200
    _, partly = answer(CHAT, {**judgment(turn()), "max_completion_tokens": 256 + spoken - 1})
    assert partly["choices"][0]["finish_reason"] == "length"


def test_instructions_of_a_keyed_prompt_are_counted_as_cached() -> None:
    asked = chat(prompt_cache_key="k")
    asked["messages"][0]["content"] = "word " * 2000
    _, body = answer(CHAT, asked)
    cached = body["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert 2000 < cached < body["usage"]["prompt_tokens"]
    assert cached % 128 == 0


def test_no_request_counts_as_more_tokens_than_its_bytes() -> None:
    for api, request in ((CHAT, agent()), (CHAT, simulation(COMMAND)), (CHAT, judgment()), (RESPONSES, responses())):
        _, body = answer(api, request)
        counted = body["usage"].get("prompt_tokens", body["usage"].get("input_tokens"))
        assert 0 < counted <= len(json.dumps(request, separators=(",", ":")))


def test_the_served_model_is_the_one_asked_for_unless_another_is_set() -> None:
    knobs = Knobs(serves={"asked": "reported"})
    for api, request in ((CHAT, agent()), (RESPONSES, responses()), (EMBEDDINGS, embeddings())):
        assert answer(api, {**request, "model": "asked"}, knobs)[1]["model"] == "reported"
        assert answer(api, request, knobs)[1]["model"] == request["model"]


def test_the_skill_belongs_to_the_name_asked_for_not_to_the_one_reported() -> None:
    knobs = Knobs(serves={"embedded-small": "embedded-large"})
    assert commands_of(message(agent(model="embedded-small"), knobs)) in (["pwd"], ["ls -la"])


def test_a_seed_draws_again() -> None:
    tasks = [f"Write a Python script number {number}" for number in range(60)]
    plain = [cast.able(cast.MEDIUM, task) for task in tasks]
    assert plain != [cast.able(cast.MEDIUM, task, 1) for task in tasks]


PROGRAM = """
import json, hashlib
from commands.embedded.answer import answer
from tests.commands.embedded import asking as a
asked = [("chat.completions", a.agent()), ("chat.completions", a.agent(model="gpt-4o")), ("responses", a.responses()),
         ("chat.completions", a.simulation(a.COMMAND, a.example(a.COMMAND, "x"))),
         ("chat.completions", a.judgment(a.turn())), ("embeddings", a.embeddings(encoding_format="float"))]
print(hashlib.sha256(json.dumps([answer(*one) for one in asked]).encode()).hexdigest())
"""


def test_answers_are_equal_in_every_process_whatever_its_hash_seed() -> None:
    printed = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(printed) == 1
