// Asks with the official Node clients. Reads a list of jobs (JSON) from stdin, prints one JSON line a job.
// SDKS is the directory whose node_modules has them.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const load = async (name) => {
  const require = createRequire(pathToFileURL(process.env.SDKS + "/package.json"));
  return (await import(pathToFileURL(require.resolve(name)))).default;
};
const unwrap = (m) => m.default ?? m; // of a CommonJS module
const OpenAI = unwrap(await load("openai"));
const Anthropic = unwrap(await load("@anthropic-ai/sdk"));

const MAX = 1000;
const schema = {
  type: "object",
  properties: { command: { type: "string" } },
  required: ["command"],
  additionalProperties: false,
};

function clients(job) {
  const more = { apiKey: job.key || "key-of-a-test", maxRetries: job.retries ?? 0, timeout: 30000 };
  return [new OpenAI({ baseURL: job.base + "/v1", ...more }), new Anthropic({ baseURL: job.base, ...more })];
}

function tools(job) {
  if (!job.tools) return {};
  switch (job.api) {
    case "chat":
      return { tools: [{ type: "function", function: { name: "bash", strict: true, parameters: schema } }] };
    case "responses":
      return { tools: [{ type: "function", name: "bash", strict: true, parameters: schema }] };
    default:
      return { tools: [{ name: "bash", input_schema: schema }] };
  }
}

function fromChat(c) {
  const m = c.choices[0].message;
  return {
    text: m.content ?? "",
    reasoning: m.reasoning_content ?? "",
    calls: (m.tool_calls ?? []).map((t) => [t.function.name, JSON.parse(t.function.arguments).command]),
    stop: c.choices[0].finish_reason,
    usage: c.usage ? [c.usage.prompt_tokens, c.usage.completion_tokens] : null,
    message: m,
  };
}

function fromResponses(r) {
  const of = (type) => r.output.filter((i) => i.type === type);
  return {
    text: of("message").flatMap((i) => i.content.map((p) => p.text ?? "")).join(""),
    reasoning: of("reasoning").flatMap((i) => i.summary.map((s) => s.text)).join(""),
    calls: of("function_call").map((i) => [i.name, JSON.parse(i.arguments).command]),
    stop: r.status,
    usage: r.usage ? [r.usage.input_tokens, r.usage.output_tokens] : null,
    message: r.output,
  };
}

function fromMessages(m) {
  const of = (type) => m.content.filter((b) => b.type === type);
  return {
    text: of("text").map((b) => b.text).join(""),
    reasoning: of("thinking").map((b) => b.thinking).join(""),
    calls: of("tool_use").map((b) => [b.name, b.input.command]),
    stop: m.stop_reason,
    usage: [m.usage.input_tokens, m.usage.output_tokens],
    message: m.content,
  };
}

async function ask(job, history) {
  const [o, a] = clients(job);
  const kw = { model: job.model, ...tools(job) };
  switch (job.api) {
    case "chat": {
      const q = { ...kw, messages: history };
      if (job.logprobs) q.logprobs = true;
      if (!job.stream) {
        const c = await o.chat.completions.create(q);
        const out = fromChat(c);
        if (job.logprobs) out.logprobs = c.choices[0].logprobs.content.length;
        return out;
      }
      const s = o.chat.completions.stream({ ...q, stream_options: { include_usage: true } });
      return fromChat(await s.finalChatCompletion());
    }
    case "responses": {
      const q = { ...kw, input: history, store: false };
      if (!job.stream) return fromResponses(await o.responses.create(q));
      return fromResponses(await o.responses.stream(q).finalResponse());
    }
    default: {
      const q = { ...kw, messages: history, max_tokens: MAX };
      if (!job.stream) return fromMessages(await a.messages.create(q));
      return fromMessages(await a.messages.stream(q).finalMessage());
    }
  }
}

function follow(job, history, got) {
  const m = got.message;
  switch (job.api) {
    case "chat":
      history.push({ role: "assistant", content: m.content, tool_calls: m.tool_calls.map(({ id, type, function: f }) => ({ id, type, function: { name: f.name, arguments: f.arguments } })) });
      for (const t of m.tool_calls) history.push({ role: "tool", tool_call_id: t.id, content: "ok" });
      break;
    case "responses":
      for (const { parsed_arguments, parsed, ...i } of m) history.push(i);
      for (const i of m) if (i.type === "function_call") history.push({ type: "function_call_output", call_id: i.call_id, output: "ok" });
      break;
    default:
      history.push({ role: "assistant", content: m });
      history.push({ role: "user", content: m.filter((b) => b.type === "tool_use").map((b) => ({ type: "tool_result", tool_use_id: b.id, content: "ok" })) });
  }
}

async function talk(job) {
  const history = [{ role: "user", content: job.task ?? "do it" }];
  const turns = [];
  while (turns.length < 10) {
    const got = await ask(job, history);
    const { message, ...rest } = got;
    turns.push(rest);
    if (got.calls.length === 0) break;
    follow(job, history, got);
  }
  return { turns };
}

// Leaves a stream after its first text.
async function abort(job) {
  const [o, a] = clients(job);
  const content = [{ role: "user", content: "go on" }];
  const q = { model: job.model, stream: true };
  const s =
    job.api === "messages" ? await a.messages.create({ ...q, max_tokens: MAX, messages: content })
    : job.api === "chat" ? await o.chat.completions.create({ ...q, messages: content })
    : await o.responses.create({ ...q, input: "go on" });
  let n = 0;
  for await (const _ of s) {
    if (++n === 6) break;
  }
  s.controller.abort();
  return { events: n };
}

async function parallel(job) {
  const one = async (i) => (await ask({ ...job, stream: true }, [{ role: "user", content: `number ${i}.` }])).text;
  const texts = await Promise.all(Array.from({ length: job.n }, (_, i) => one(i)));
  return { right: texts.filter((t, i) => t === `answer ${i}`).length };
}

async function others(job) {
  const [o, a] = clients(job);
  const models = [];
  const list = job.api === "messages" ? a.models.list() : o.models.list();
  for await (const m of list) models.push(m.id);
  if (job.api !== "messages") return { models, counted: true };
  const n = await a.messages.countTokens({ model: job.model, messages: [{ role: "user", content: "hi" }] });
  return { models, counted: n.input_tokens > 0 };
}

async function run(job) {
  try {
    return await ({ abort, parallel, others }[job.mode] ?? talk)(job);
  } catch (e) {
    const body = e.error?.error ?? e.error ?? {};
    return { error: e.constructor?.name ?? "Error", status: e.status ?? 0, code: body.code ?? body.type ?? null, says: String(e.message).slice(0, 200) };
  }
}

for (const job of JSON.parse(readFileSync(0, "utf8"))) {
  console.log(JSON.stringify({ name: job.name, ...(await run(job)) }));
}
process.exit(0);
