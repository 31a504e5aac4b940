// A model server for tests: chat completions, plain and streamed, of a small real model on this machine's processor.
// SMALL_MODEL is the directory with node_modules and model.gguf; MAX_TOKENS caps every answer. It prints its port.
//
// The model has base weights and no chat template: a conversation is written out as "role: text", tools are ignored.
// Names of models are ways to fail: NAME-stall falls silent after a few tokens, NAME-cut breaks the connection there.
// GET /stats tells what it is doing, so that a test can see that a client that leaves ends the work.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const dir = process.env.SMALL_MODEL;
const cap = Number(process.env.MAX_TOKENS || 128);
const require = createRequire(pathToFileURL(dir + "/package.json"));
const { getLlama, LlamaCompletion } = await import(pathToFileURL(require.resolve("node-llama-cpp")));
const llama = await getLlama({ gpu: false, build: "never", maxThreads: 2, logLevel: "error" });
const model = await llama.loadModel({ modelPath: dir + "/model.gguf" });
const context = await model.createContext({ contextSize: 4096 });
const sequence = context.getSequence();
const completion = new LlamaCompletion({ contextSequence: sequence });

const stats = { begun: 0, finished: 0, left: 0, active: 0, tokens: 0 };
let last = Promise.resolve(); // one sequence: answers are made one after the other

const text = (content) => (typeof content === "string" ? content : (content ?? []).map((p) => p.text ?? "").join(""));

function prompt(messages) {
  return messages.map((m) => `${m.role}: ${text(m.content)}\n`).join("") + "assistant:";
}

function fail(res, status, message, code) {
  res.writeHead(status, { "content-type": "application/json" });
  res.end(JSON.stringify({ error: { message, type: "invalid_request_error", param: null, code } }));
}

async function answer(req, res, body) {
  const ask = JSON.parse(body);
  const tokens = model.tokenize(prompt(ask.messages));
  const most = Math.min(cap, ask.max_tokens ?? ask.max_completion_tokens ?? cap);
  if (tokens.length + most >= 4096) {
    const said = `This model's maximum context length is 4096 tokens. However, your messages resulted in ${tokens.length} tokens.`;
    return fail(res, 400, said, "context_length_exceeded");
  }
  const gone = new AbortController();
  res.on("close", () => res.writableFinished || gone.abort());
  const turn = last.then(() => generate(ask, tokens, most, res, gone.signal)).catch((e) => {
    if (!gone.signal.aborted) console.error(e);
    res.destroy();
  });
  last = turn;
  await turn;
}

async function generate(ask, tokens, most, res, signal) {
  if (signal.aborted) {
    stats.left++;
    return;
  }
  stats.begun++;
  stats.active++;
  const id = "chatcmpl-" + stats.begun;
  const frame = (delta, finish, more) => `data: ${JSON.stringify({
    id, object: "chat.completion.chunk", created: Math.floor(Date.now() / 1000), model: ask.model,
    choices: delta ? [{ index: 0, delta, finish_reason: finish }] : [], ...more,
  })}\n\n`;
  let n = 0;
  try {
    if (ask.stream) {
      res.writeHead(200, { "content-type": "text/event-stream" });
      res.write(frame({ role: "assistant", content: "" }, null));
    }
    const trouble = /-(stall|cut)$/.exec(ask.model)?.[1];
    const { response, metadata } = await completion.generateCompletionWithMeta(tokens, {
      maxTokens: trouble ? 8 : most,
      temperature: ask.temperature ?? 0,
      signal,
      stopOnAbortSignal: true,
      customStopTriggers: ["\nuser:", "\nsystem:"],
      onToken: (made) => {
        n += made.length;
        stats.tokens += made.length;
      },
      onTextChunk: (piece) => {
        if (ask.stream) res.write(frame({ content: piece }, null));
      },
    });
    if (trouble === "cut") {
      if (!ask.stream) res.writeHead(200, { "content-type": "application/json", "content-length": 9999 }).write('{"id":');
      await new Promise((sent) => res.write("\n", sent));
      return void res.destroy();
    }
    if (trouble === "stall") return void (await new Promise((go) => (signal.aborted ? go() : signal.addEventListener("abort", go))));
    const finish = metadata.stopReason === "maxTokens" ? "length" : "stop";
    const usage = { prompt_tokens: tokens.length, completion_tokens: n, total_tokens: tokens.length + n };
    if (ask.stream) {
      res.write(frame({}, finish));
      if (ask.stream_options?.include_usage) res.write(frame(null, null, { usage }));
      res.end("data: [DONE]\n\n");
    } else {
      res.writeHead(200, { "content-type": "application/json" });
      res.end(JSON.stringify({
        id, object: "chat.completion", created: Math.floor(Date.now() / 1000), model: ask.model, usage,
        choices: [{ index: 0, message: { role: "assistant", content: response, refusal: null }, finish_reason: finish, logprobs: null }],
      }));
    }
  } finally {
    stats.active--;
    if (signal.aborted) stats.left++;
    else stats.finished++;
    await sequence.clearHistory();
  }
}

createServer((req, res) => {
  if (req.url === "/stats") return void res.end(JSON.stringify(stats));
  if (req.method === "GET" && req.url.endsWith("/models")) {
    return void res.end(JSON.stringify({ object: "list", data: [{ id: "small", object: "model", created: 0, owned_by: "test" }] }));
  }
  if (req.method !== "POST" || !req.url.endsWith("/chat/completions")) return fail(res, 404, "no such path", null);
  let body = "";
  req.setEncoding("utf8");
  req.on("data", (d) => (body += d));
  req.on("end", () => answer(req, res, body).catch((e) => fail(res, 400, String(e), null)));
}).listen(0, "127.0.0.1", function () {
  console.log(this.address().port);
});
