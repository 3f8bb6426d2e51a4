"use strict";
// Where the cards go: the root on the left, a column for each depth, leaves one below the other.

const CARD = { width: 200, height: 54, gapX: 74, gapY: 14 };
const MORE_HEIGHT = 26; // of the line that counts what is folded

// Returns cards in the order of the outline: { node, x, y, height, more }, where `more` is set for
// a line that stands for the folded children of `node`.
function layOut(tree) {
  const cards = [];
  const cardOf = new Map();
  const waiting = [{ node: 0, level: 0 }];
  while (waiting.length) {
    const { node, level, more } = waiting.pop();
    const x = level * (CARD.width + CARD.gapX);
    if (more) {
      cards.push({ node, level, x, y: 0, height: MORE_HEIGHT, more, leaf: true });
      continue;
    }
    const shown = shownChildren(tree, node);
    const card = { node, level, x, y: 0, height: CARD.height, more: null, leaf: true };
    cards.push(card);
    cardOf.set(node, card);
    const next = shown.map((child) => ({ node: child, level: level + 1 }));
    const hidden = foldedChildren(tree, node, shown);
    if (hidden && shown.length) next.push({ node, level: level + 1, more: hidden });
    card.leaf = next.length === 0;
    for (const one of next.reverse()) waiting.push(one);
  }
  let y = 0;
  for (const card of cards) {
    if (!card.leaf) continue;
    card.y = y;
    y += card.height + CARD.gapY;
  }
  // A card stands in the middle of its children; those come later in the list.
  for (let k = cards.length - 1; k >= 0; k--) {
    const card = cards[k];
    if (!card.leaf) card.y = middleOfChildren(tree, card, cardOf, cards[k + 1]) - card.height / 2;
  }
  const width = cards.reduce((most, card) => Math.max(most, card.x + CARD.width), 0);
  return { cards, cardOf, width, height: Math.max(y - CARD.gapY, CARD.height) };
}

function middleOfChildren(tree, card, cardOf, first) {
  const shown = shownChildren(tree, card.node);
  const last = cardOf.get(shown[shown.length - 1]);
  return (first.y + first.height / 2 + last.y + last.height / 2) / 2;
}

function foldedChildren(tree, node, shown) {
  if (tree.collapsed.has(node)) return null;
  const hidden = tree.children[node].length - shown.length;
  if (hidden === 0) return null;
  let data = tree.through[node] - tree.here[node];
  let nodes = tree.within[node] - 1;
  for (const child of shown) {
    data -= tree.through[child];
    nodes -= tree.within[child];
  }
  return { data, nodes };
}
