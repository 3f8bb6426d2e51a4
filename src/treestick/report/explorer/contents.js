"use strict";
// What is inside the file: unpacked when it is asked for, and kept.

const contents = JSON.parse(document.getElementById("contents").textContent);

const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };
const MOST_SHEETS = 12; // images of 1,024 tiles that are kept unpacked

const unpacked = new Map();

function rawBytes(number) {
  const text = atob(document.getElementById(`chunk-${number}`).textContent);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < bytes.length; k++) bytes[k] = text.charCodeAt(k);
  return bytes;
}

async function inflate(number) {
  const stream = new Blob([rawBytes(number)]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}

function once(key, make) {
  if (!unpacked.has(key)) unpacked.set(key, make());
  return unpacked.get(key);
}

function loadJson(number) {
  return once(`json ${number}`, async () => JSON.parse(new TextDecoder().decode(await inflate(number))));
}

function loadArray(reference) {
  const make = async () => new TYPES[reference.type](await inflate(reference.chunk));
  return once(`array ${reference.chunk}`, make);
}

// The oldest sheets are dropped: a thousand photographs take four megabytes each time.
const sheets = new Map();

function loadSheet(number) {
  let sheet = sheets.get(number);
  if (sheet) sheets.delete(number);
  else {
    sheet = createImageBitmap(new Blob([rawBytes(number)], { type: "image/webp" }));
    if (sheets.size >= MOST_SHEETS) sheets.delete(sheets.keys().next().value);
  }
  sheets.set(number, sheet);
  return sheet;
}

// A tile of sheets that `add_sheets` wrote: the image, and where in it.
async function loadTile(images, k) {
  const sheet = await loadSheet(images.sheets[Math.floor(k / images.perSheet)]);
  return { sheet, ...placeOfTile(images, k) };
}

function placeOfTile(images, k) {
  const within = k % images.perSheet;
  return {
    x: (within % images.perRow) * images.width,
    y: Math.floor(within / images.perRow) * images.height,
    width: images.width,
    height: images.height,
  };
}

// -- the data, by their place in the page ----------------------------------------------------------

async function loadIds() {
  return once("ids", async () => {
    if (contents.ids !== null) return loadJson(contents.ids);
    return Array.from(await loadArray(contents.order), String);
  });
}

async function loadText(datum) {
  const texts = contents.texts;
  if (texts === null) return null;
  const listed = await loadJson(texts.chunks[Math.floor(datum / texts.perChunk)]);
  return listed[datum % texts.perChunk];
}

async function loadFeatureNames() {
  return contents.features === null ? null : loadJson(contents.features);
}

async function loadColumn(column) {
  const [names, starts, codes, values] = await Promise.all([
    loadJson(column.names),
    loadArray(column.starts),
    loadArray(column.codes),
    column.values === null ? null : loadArray(column.values),
  ]);
  return { ...column, names, starts, codes, values };
}

function loadColumns() {
  return once("columns", () => Promise.all(contents.columns.map(loadColumn)));
}
