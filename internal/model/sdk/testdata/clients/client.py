"""Asks with the official Python clients. Reads a list of jobs (JSON) from stdin, prints one JSON line a job."""

import asyncio
import functools
import json
import sys

import anthropic
import openai

KEY = "key-of-a-test"
SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
    "additionalProperties": False,
}
MAX = 1000


@functools.cache
def made(base, key, retries, asynchronous):
    """Clients read every certificate of the machine when they are made: once is enough."""
    o = openai.AsyncOpenAI if asynchronous else openai.OpenAI
    a = anthropic.AsyncAnthropic if asynchronous else anthropic.Anthropic
    more = {"api_key": key, "max_retries": retries, "timeout": 30}
    return o(base_url=base + "/v1", **more), a(base_url=base, **more)


def clients(job, asynchronous=False):
    if asynchronous:  # they belong to one event loop
        return made.__wrapped__(job["base"], job.get("key") or KEY, job.get("retries", 0), True)
    return made(job["base"], job.get("key") or KEY, job.get("retries", 0), False)


def tools(job):
    if not job.get("tools"):
        return {}
    if job["api"] == "chat":
        return {"tools": [{"type": "function", "function": {"name": "bash", "strict": True, "parameters": SCHEMA}}]}
    if job["api"] == "responses":
        return {"tools": [{"type": "function", "name": "bash", "strict": True, "parameters": SCHEMA}]}
    return {"tools": [{"name": "bash", "input_schema": SCHEMA}]}


def from_chat(c):
    m = c.choices[0].message
    return {
        "text": m.content or "",
        "reasoning": (m.model_extra or {}).get("reasoning_content", ""),
        "calls": [[t.function.name, json.loads(t.function.arguments)["command"]] for t in m.tool_calls or []],
        "stop": c.choices[0].finish_reason,
        "usage": c.usage and [c.usage.prompt_tokens, c.usage.completion_tokens],
        "message": m.model_dump(exclude_none=True, exclude={"parsed"}),
    }


def from_responses(r):
    return {
        "text": r.output_text,
        "reasoning": "".join(s.text for i in r.output if i.type == "reasoning" for s in i.summary),
        "calls": [[i.name, json.loads(i.arguments)["command"]] for i in r.output if i.type == "function_call"],
        "stop": r.status,
        "usage": r.usage and [r.usage.input_tokens, r.usage.output_tokens],
        "message": [i.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for i in r.output],
    }


def from_messages(m):
    return {
        "text": "".join(b.text for b in m.content if b.type == "text"),
        "reasoning": "".join(b.thinking for b in m.content if b.type == "thinking"),
        "calls": [[b.name, b.input["command"]] for b in m.content if b.type == "tool_use"],
        "stop": m.stop_reason,
        "usage": [m.usage.input_tokens, m.usage.output_tokens],
        "message": [b.model_dump(exclude_none=True) for b in m.content],
    }


def ask(job, history):
    o, a = clients(job)
    model, kw = job["model"], tools(job)
    if job["api"] == "chat":
        kw.update(model=model, messages=history)
        if job.get("logprobs"):
            kw["logprobs"] = True
        if not job.get("stream"):
            c = o.chat.completions.create(**kw)
            out = from_chat(c)
            if job.get("logprobs"):
                out["logprobs"] = len(c.choices[0].logprobs.content)
            return out
        with o.chat.completions.stream(stream_options={"include_usage": True}, **kw) as s:
            for _ in s:
                pass
            return from_chat(s.get_final_completion())
    if job["api"] == "responses":
        kw.update(model=model, input=history, store=False)
        if not job.get("stream"):
            return from_responses(o.responses.create(**kw))
        with o.responses.stream(**kw) as s:
            for _ in s:
                pass
            return from_responses(s.get_final_response())
    kw.update(model=model, messages=history, max_tokens=MAX)
    if not job.get("stream"):
        return from_messages(a.messages.create(**kw))
    with a.messages.stream(**kw) as s:
        for _ in s:
            pass
        return from_messages(s.get_final_message())


def follow(job, history, got):
    """Adds the answer and results of its calls."""
    m = got["message"]
    if job["api"] == "chat":
        history.append(m)
        history += [{"role": "tool", "tool_call_id": t["id"], "content": "ok"} for t in m["tool_calls"]]
    elif job["api"] == "responses":
        for i in m:
            history.append({k: v for k, v in i.items() if k != "status" or i["type"] != "reasoning"})
        history += [{"type": "function_call_output", "call_id": i["call_id"], "output": "ok"} for i in m if i["type"] == "function_call"]
    else:
        history.append({"role": "assistant", "content": m})
        history.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": b["id"], "content": "ok"} for b in m if b["type"] == "tool_use"]})


def talk(job):
    history, turns = [{"role": "user", "content": job.get("task", "do it")}], []
    while len(turns) < 10:
        got = ask(job, history)
        turns.append({k: v for k, v in got.items() if k != "message"})
        if not got["calls"]:
            break
        follow(job, history, got)
    return {"turns": turns}


def abort(job):
    """Leaves a stream after its first text."""
    o, a = clients(job)
    if job["api"] == "messages":
        s = a.messages.create(model=job["model"], max_tokens=MAX, stream=True, messages=[{"role": "user", "content": "go on"}])
    elif job["api"] == "chat":
        s = o.chat.completions.create(model=job["model"], stream=True, messages=[{"role": "user", "content": "go on"}])
    else:
        s = o.responses.create(model=job["model"], stream=True, input="go on")
    n = 0
    for _ in s:
        n += 1
        if n == 6:
            break
    (s.response if hasattr(s, "response") else s).close()
    return {"events": n}


def parallel(job):
    async def one(o, a, i):
        history = [{"role": "user", "content": "number %d." % i}]
        if job["api"] == "messages":
            async with a.messages.stream(model=job["model"], max_tokens=MAX, messages=history) as s:
                return from_messages(await s.get_final_message())["text"]
        if job["api"] == "responses":
            async with o.responses.stream(model=job["model"], input=history) as s:
                return from_responses(await s.get_final_response())["text"]
        async with o.chat.completions.stream(model=job["model"], messages=history) as s:
            return from_chat(await s.get_final_completion())["text"]

    async def all():
        o, a = clients(job, True)
        return await asyncio.gather(*[one(o, a, i) for i in range(job["n"])])

    texts = asyncio.run(all())
    return {"right": sum(t == "answer %d" % i for i, t in enumerate(texts))}


def others(job):
    o, a = clients(job)
    if job["api"] == "messages":
        n = a.messages.count_tokens(model=job["model"], messages=[{"role": "user", "content": "hi"}]).input_tokens
        return {"models": [m.id for m in a.models.list()], "counted": n > 0}
    return {"models": [m.id for m in o.models.list()], "counted": True}


def run(job):
    try:
        return {"abort": abort, "parallel": parallel, "others": others}.get(job.get("mode"), talk)(job)
    except Exception as e:  # the error is the result
        body = getattr(e, "body", None) or {}
        if isinstance(body, dict) and isinstance(body.get("error"), dict):
            body = body["error"]
        return {
            "error": type(e).__name__,
            "status": getattr(e, "status_code", 0) or 0,
            "code": (body.get("code") or body.get("type")) if isinstance(body, dict) else None,
            "says": str(e)[:200],
        }


def main():
    for job in json.load(sys.stdin):
        print(json.dumps({"name": job["name"], **run(job)}), flush=True)


main()
