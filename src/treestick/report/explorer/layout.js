"use strict";
// Where the cards go: the root on the left, a column for each depth, leaves one below the other.

// Nodes are cards with words, or tiles with a picture and a line below it.
const CARD = { tile: false, width: 196, height: 54, gapX: 52, gapY: 12, readable: 0.66 };
const TILE = { tile: true, width: 78, height: 95, gapX: 36, gapY: 10, readable: 0.5 };

// Returns cards, parents before children: { node, level, x, y, height, shown, more }, where `shown`
// are the children that have cards and `more` says how much of the others there is.
function layOut(tree) {
  const cards = [];
  const cardOf = new Map();
  const waiting = [{ node: 0, level: 0 }];
  while (waiting.length) {
    const { node, level } = waiting.pop();
    const shown = shownChildren(tree, node);
    const x = level * (CARD.width + CARD.gapX);
    const card = { node, level, x, y: 0, height: CARD.height, shown, more: foldedChildren(tree, node, shown) };
    cards.push(card);
    cardOf.set(node, card);
    for (let k = shown.length - 1; k >= 0; k--) waiting.push({ node: shown[k], level: level + 1 });
  }
  let y = 0;
  for (const card of cards) {
    if (card.shown.length) continue;
    card.y = y;
    y += card.height + CARD.gapY;
  }
  // Backwards, because a card stands in the middle of its children.
  for (let k = cards.length - 1; k >= 0; k--) {
    const { shown } = cards[k];
    if (shown.length) cards[k].y = (cardOf.get(shown[0]).y + cardOf.get(shown[shown.length - 1]).y) / 2;
  }
  const width = cards.reduce((most, card) => Math.max(most, card.x + CARD.width), 0);
  return { cards, cardOf, width, height: Math.max(y - CARD.gapY, CARD.height) };
}

// How many nodes and data are at and below the children that have no card.
function foldedChildren(tree, node, shown) {
  if (shown.length === tree.children[node].length) return null;
  let data = tree.through[node] - tree.here[node];
  let nodes = tree.within[node] - 1;
  for (const child of shown) {
    data -= tree.through[child];
    nodes -= tree.within[child];
  }
  return { data, nodes };
}
