// Mattermost's own client (@mattermost/client) against the server that BASE names; what it saw goes out as one JSON line
// for each step. The test ends the WebSockets between the steps.
"use strict";

const { Client4, WebSocketClient } = require("@mattermost/client");
const ws = require("ws");

globalThis.WebSocket ??= ws;
const { BASE, BOT_TOKEN, DM } = process.env;
console.log = () => {}; // The client is talkative; the lines are for the test.
const say = (step, seen) => process.stdout.write(`${JSON.stringify({ step, ...seen })}\n`);

function listen(token) {
  const socket = new WebSocketClient({
    minWebSocketRetryTime: 50,
    maxWebSocketRetryTime: 100,
    reconnectJitterRange: 10,
    newWebSocketFn: (url) => new ws(url),
  });
  const events = [];
  const waiting = [];
  socket.missed = 0;
  socket.addMissedMessageListener(() => socket.missed++);
  socket.addMessageListener((message) => {
    events.push(message);
    waiting.splice(0).forEach((wake) => wake());
  });
  socket.event = async (name, fits = () => true) => {
    for (;;) {
      const at = events.findIndex((message) => message.event === name && fits(message));
      if (at >= 0) return events.splice(at, 1)[0];
      await new Promise((wake) => waiting.push(wake));
    }
  };
  socket.initialize(`${BASE.replace("http", "ws")}/api/v4/websocket`, token);
  return socket;
}

async function main() {
  const bot = new Client4();
  const owner = new Client4();
  for (const client of [bot, owner]) client.setUrl(BASE);
  bot.setToken(BOT_TOKEN);
  const me = await bot.getMe();
  const person = await owner.login("owner", "password of owner");
  const heard = listen(BOT_TOKEN);
  const ownerHeard = listen(owner.getToken());
  await Promise.all([heard.event("hello"), ownerHeard.event("hello")]);

  const asked = await owner.createPost({ channel_id: DM, message: "What is the time?" });
  const posted = await heard.event("posted");
  heard.userTyping(DM, asked.id);
  const typing = await ownerHeard.event("typing");
  const reply = await bot.createPost({ channel_id: DM, message: "It is", root_id: asked.id, props: { boxmaker: "s/1/1" } });
  await bot.patchPost({ id: reply.id, message: "It is noon." });
  const edited = await ownerHeard.event("post_edited");
  await owner.addReaction(person.id, reply.id, "white_check_mark");
  const reaction = await heard.event("reaction_added");
  const form = new FormData();
  form.append("channel_id", DM);
  form.append("files", new Blob(["long output"]), "output.txt");
  const { file_infos: files } = await bot.uploadFile(form);
  await bot.createPost({ channel_id: DM, message: "", root_id: asked.id, file_ids: [files[0].id] });
  const refused = await bot.createPost({ channel_id: DM, message: "x".repeat(16384) }).catch((error) => error);
  const thread = await bot.getPostThread(asked.id);
  say("talked", {
    me: me.username,
    posted: JSON.parse(posted.data.post).message,
    typing: [typing.data.user_id, typing.data.parent_id],
    edited: JSON.parse(edited.data.post).message,
    reaction: JSON.parse(reaction.data.reaction).emoji_name,
    reactions: (await bot.getReactionsForPost(reply.id)).length,
    file: files[0].name,
    refused: refused.server_error_id,
    thread: thread.order.map((id) => thread.posts[id].message),
    after: (await bot.getPostsAfter(DM, asked.id)).order.length,
  });

  // The test breaks the connections, and posts meanwhile.
  const isOwners = (event) => JSON.parse(event.data.post).user_id === person.id;
  const caught = [await heard.event("posted", isOwners), await heard.event("posted", isOwners)];
  say("resumed", { posts: caught.map((event) => JSON.parse(event.data.post).message), missed: heard.missed });

  // The test breaks them again, and makes the server forget them.
  await heard.event("hello");
  say("began again", { missed: heard.missed });
  await owner.deletePost(asked.id);
  await heard.event("post_deleted");
  process.exit(0);
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
