// `weft serve` with npm's `openai`, for serve_clients.py: node serve_clients.mjs chats|tools|embeddings PORT.
// Prints one line for each check that passed.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url); // which looks in NODE_PATH, as import does not
const { default: OpenAI, ...errors } = require("openai");
const { zodResponseFormat } = require("openai/helpers/zod");
const { z } = require("zod");

const user = (content) => [{ role: "user", content }];
const greeting = "Hello! What can I do for you?";
const [group, port] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: "none", maxRetries: 0 });
const ask = { model: "pocket", messages: user("hello"), temperature: 0 };

function check(name, holds) {
  assert.ok(holds, name);
  console.log("passed: npm:", name);
}

async function collect(stream) {
  const all = [];
  for await (const one of stream) all.push(one);
  return all;
}

async function failure(kind, call) {
  const error = await call.then(() => null, (problem) => problem);
  assert.ok(error instanceof kind, `${kind.name} was not thrown: ${error}`);
  return error;
}

async function chats() {
  check("models", (await client.models.list()).data[0].id === "pocket");
  const answer = await client.chat.completions.create({ ...ask, logprobs: true, top_logprobs: 2 });
  check("chat", answer.choices[0].message.content === greeting && answer.choices[0].finish_reason === "stop");
  const tokens = answer.choices[0].logprobs.content;
  check("logprobs", tokens.map((token) => token.token).join("") === greeting && tokens[0].top_logprobs.length === 2);
  const chunks = await collect(await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } }));
  check("stream", chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("") === greeting);
  check("stream's usage", chunks.at(-1).usage.completion_tokens === answer.usage.completion_tokens);
  const final = await client.chat.completions.stream(ask).finalChatCompletion();
  check("stream helper", final.choices[0].message.content === greeting);
  const broken = await client.chat.completions.create({ ...ask, messages: user("tell me a story"), stream: true });
  for await (const chunk of broken) if (chunk.choices[0].delta.content) break;
  check("breaking off a stream", (await client.chat.completions.create(ask)).choices[0].message.content === greeting);
  const person = z.object({ name: z.string().max(20), age: z.int().min(0).max(150), pets: z.array(z.enum(["cat", "dog"])).max(2) });
  const parsed = await client.chat.completions.parse({ ...ask, max_tokens: 300, response_format: zodResponseFormat(person, "person") });
  check("json_schema with zod", person.safeParse(parsed.choices[0].message.parsed).success);
  const text = (await client.completions.create({ model: "pocket", prompt: "The cat", max_tokens: 4 })).choices[0].text;
  check("completion", text.length > 0);
}

async function responses() {
  const request = { model: "pocket", input: "hello", temperature: 0 };
  const answer = await client.responses.create(request);
  check("a response", answer.output_text === greeting && answer.status === "completed");
  const events = await collect(await client.responses.create({ ...request, stream: true }));
  const deltas = events.filter((event) => event.type === "response.output_text.delta");
  check("a response's stream", deltas.map((event) => event.delta).join("") === greeting && events.at(-1).type === "response.completed");
  check("a response's stream helper", (await client.responses.stream(request).finalResponse()).output_text === greeting);
}

async function refusals() {
  const unknown = await failure(errors.NotFoundError, client.chat.completions.create({ ...ask, model: "gpt-4o" }));
  check("404", unknown.code === "model_not_found" && unknown.param === "model");
  const tooMany = await failure(errors.BadRequestError, client.chat.completions.create({ ...ask, n: 5 }));
  check("400", tooMany.code === "invalid_value" && tooMany.param === "n");
  const tool = { type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } };
  const noTools = await failure(errors.BadRequestError, client.chat.completions.create({ ...ask, tools: [tool] }));
  check("a template without tools", noTools.param === "tools" && noTools.code === "unsupported");
}

// With the model and the template of serve_clients.py.
async function tools() {
  const parameters = { type: "object", properties: { city: { enum: ["Rome", "Oslo"] } }, required: ["city"], additionalProperties: false };
  const tool = { type: "function", function: { name: "weather", parameters } };
  const request = { model: "client-tools", messages: user("go"), tools: [tool], tool_choice: "required", parallel_tool_calls: false, seed: 1, max_tokens: 200 };
  const choice = (await client.chat.completions.create(request)).choices[0];
  const [call] = choice.message.tool_calls;
  check("a call", choice.finish_reason === "tool_calls" && ["Rome", "Oslo"].includes(JSON.parse(call.function.arguments).city));
  const streamed = await client.chat.completions.stream(request).finalChatCompletion();
  check("a call in a stream", streamed.choices[0].message.tool_calls[0].function.arguments === call.function.arguments);
  const messages = [...user("go"), choice.message, { role: "tool", tool_call_id: call.id, content: "sunny" }];
  const answer = await client.chat.completions.create({ model: "client-tools", messages, tools: [tool], max_tokens: 5 });
  check("its answer", answer.choices[0].message !== undefined);
}

async function embeddings() {
  const input = ["A man is eating food.", "Someone eats a meal.", "The stock market fell today."];
  const model = (await client.models.list()).data[0].id;
  const packed = await client.embeddings.create({ model, input }); // base64, unless told otherwise
  const plain = await client.embeddings.create({ model, input, encoding_format: "float" });
  const [a, b, c] = packed.data.map((item) => item.embedding);
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  check("embeddings in base64", dot(a, plain.data[0].embedding) > 0.99999 && a.length === plain.data[0].embedding.length);
  check("they know what is alike", dot(a, b) > 2 * Math.abs(dot(a, c)));
}

const groups = { chats: [chats, responses, refusals], tools: [tools], embeddings: [embeddings] };
for (const run of groups[group]) await run();
