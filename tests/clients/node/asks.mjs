// Asks the gateway as the official client for Node does, and prints what it got as one line of JSON.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: process.argv[3], maxRetries: 0 });
const asked = { model: "plain", messages: [{ role: "user", content: "Say ready." }] };

const plain = await client.chat.completions.create(asked);
const { data, response } = await client.chat.completions
  .create(asked, { headers: { "Idempotency-Key": "node" } })
  .withResponse();
const again = await client.chat.completions
  .create(asked, { headers: { "Idempotency-Key": "node" } })
  .withResponse();

const words = [];
let usage = null;
const stream = await client.chat.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } });
for await (const chunk of stream) {
  if (chunk.choices.length) words.push(chunk.choices[0].delta.content ?? "");
  else usage = chunk.usage;
}

const vectors = await client.embeddings.create({ model: "embed", input: ["a", "b"] });
const models = [];
for await (const model of client.models.list()) models.push(model.id);

let refused = null;
try {
  await client.chat.completions.create({ ...asked, model: "nobody" });
} catch (error) {
  refused = { name: error.constructor.name, status: error.status, code: error.code };
}

console.log(
  JSON.stringify({
    plain: plain.choices[0].message.content,
    route: response.headers.get("x-exp-route"),
    same: data.id === again.data.id,
    replayed: again.response.headers.get("idempotent-replayed"),
    streamed: words.join(""),
    usage: usage.total_tokens,
    vectors: vectors.data.length,
    listed: models.includes("plain"),
    refused,
  }),
);
