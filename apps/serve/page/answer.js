// Requests to the server.
const NUMBERS = ["temperature", "max_tokens", "seed", "top_k", "top_p", "min_p", "repeat_penalty"];
let server = { context: 0 };  // facts of the model; context: tokens, 0: not known

class ServerError extends Error {
  constructor(message, code, status) { super(message); this.code = code; this.status = status; }
}
function headers(form) {
  const key = $("key").value;
  return { ...(!form && { "Content-Type": "application/json" }), ...(key && { Authorization: "Bearer " + key }) };
}
async function call(path, body, signal) {
  let reply;
  const form = body instanceof FormData;
  try {
    reply = await fetch(path, { method: body ? "POST" : "GET", headers: headers(form), body: form ? body : body && JSON.stringify(body), signal });
  } catch (error) {
    throw error.name === "AbortError" ? error : new ServerError("The server does not answer.", "gone", 0);
  }
  if (reply.ok) return reply;
  let found = {};
  try { found = (await reply.json()).error ?? {}; } catch { /* no JSON */ }
  throw new ServerError(found.message ?? `The server answered with status ${reply.status}.`, found.code ?? "", reply.status);
}
function json(name, words) {
  try { return JSON.parse($(name).value); } catch { throw new Error(`${words} of the settings is not JSON.`); }
}
// The messages as the server takes them: without the forgotten ones, thinking and failures.
function messagesOf(chat, count = chat.messages.length) {
  const sent = chat.messages.slice(chat.forgotten, count).filter((m) => !m.failed).map((message) => ({
    role: message.role,
    content: message.pictures?.length
      ? [...message.pictures.map((url) => ({ type: "image_url", image_url: { url } })), { type: "text", text: message.content }]
      : message.content,
  }));
  const system = $("system").value.trim();
  return system ? [{ role: "system", content: system }, ...sent] : sent;
}
function options() {
  const request = { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } };
  for (const name of NUMBERS) if ($(name).value !== "") request[name] = Number($(name).value);
  if ($("head").value) request.head = $("head").value;
  return request;
}
function chatRequest(chat) {
  const request = { messages: messagesOf(chat), ...options() };
  if ($("logprobs").value) Object.assign(request, { logprobs: true, top_logprobs: Number($("logprobs").value) });
  if ($("schema").value.trim())
    request.response_format = { type: "json_schema", json_schema: { name: "answer", schema: json("schema", "The JSON schema") } };
  if ($("tools").value.trim()) request.tools = json("tools", "The list of tools");
  return request;
}
// Forgets the oldest question with its answer; false: only the last question is left.
function forgetOldest(chat) {
  for (let at = chat.forgotten + 1; at < chat.messages.length; ++at) {
    if (chat.messages[at].role !== "user") continue;
    chat.forgotten = at;
    return true;
  }
  return false;
}
// Ids of the prompt; a quarter of the context stays free for the answer, as in `weft chat`. more: ids that follow the prompt.
async function fittingPrompt(chat, count, more, signal) {
  for (;;) {
    const { tokens } = await (await call("apply-template", { messages: messagesOf(chat, count) }, signal)).json();
    if (!server.context || tokens.length + more <= server.context * 3 / 4 || !forgetOldest(chat)) return tokens;
  }
}
// The events of a stream, as JSON. A stream that breaks off is a ServerError.
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "", ended = false;
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      throw error.name === "AbortError" ? error : new ServerError("The connection broke off.", "gone", 0);
    }
    if (part.done) break;
    const parts = (pending + part.value).split("\n\n");
    pending = parts.pop();
    for (const one of parts) {
      if (one === "data: [DONE]") ended = true;
      else if (one.startsWith("data: ")) yield JSON.parse(one.slice(6));
    }
  }
  if (!ended) throw new ServerError("The connection broke off.", "gone", 0);
}
// Thinking that a model writes into its text, in front of the answer.
function splitThinking(message) {
  const found = /^\s*<think>([^]*?)(<\/think>\s*|$)/.exec(message.raw);
  message.content = found ? message.raw.slice(found[0].length) : message.raw;
  if (found) message.thinking = found[1].trim();
}
function take(message, event) {
  if (event.error) throw new ServerError(event.error.message, event.error.code ?? "", 200);
  message.usage = event.usage ?? message.usage;
  const choice = event.choices?.[0];
  if (!choice) return;
  const delta = choice.delta ?? { content: choice.text };
  if (delta.reasoning_content) message.thinking = (message.thinking ?? "") + delta.reasoning_content;
  if (delta.content) {
    message.raw += delta.content;
    splitThinking(message);
  }
  for (const part of delta.tool_calls ?? []) {
    message.calls ??= [];
    const made = (message.calls[part.index ?? message.calls.length] ??= { name: "", arguments: "" });
    made.name += part.function?.name ?? "";
    made.arguments += part.function?.arguments ?? "";
  }
  if (choice.logprobs?.content && delta.content) {
    if (!tokensOf.has(message)) tokensOf.set(message, []);
    tokensOf.get(message).push(...choice.logprobs.content);
  }
  if (choice.finish_reason === "length") {
    const used = (message.usage?.prompt_tokens ?? 0) + (message.usage?.completion_tokens ?? 0);
    message.cut = server.context && used >= server.context - 1 ? "context" : "length";
  }
}
// Streams an answer into `message`, the last one of the chat. going_on: it has a beginning, which goes on.
async function stream(chat, message, goingOn, signal, show) {
  message.raw = (goingOn && message.thinking ? `<think>${message.thinking}</think>` : "") + message.content;
  const before = chat.forgotten, place = chat.messages.indexOf(message);
  let reply;
  if (goingOn) {
    tokensOf.delete(message);  // a continuation has no probabilities
    const begun = (await (await call("tokenize", { content: message.raw }, signal)).json()).tokens;
    const prompt = await fittingPrompt(chat, place, begun.length, signal);
    reply = await call("v1/completions", { prompt: [...prompt, ...begun], ...options() }, signal);
  } else {
    const request = chatRequest(chat);  // before anything is sent: it may be wrong
    try {
      await fittingPrompt(chat, place, 0, signal);
    } catch (error) {
      if (error.name === "AbortError" || error.code === "gone" || error.status === 401) throw error;  // others come again below
    }
    reply = await call("v1/chat/completions", { ...request, messages: messagesOf(chat, place) }, signal);
  }
  if (chat.forgotten !== before) toast("The context is full: the oldest messages are no longer sent.");
  delete message.cut;
  for await (const event of events(reply)) {
    take(message, event);
    show();
  }
}
