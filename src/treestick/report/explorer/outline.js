"use strict";
// The same tree as a list, for keyboards and screen readers: an ARIA tree, one tab stop.

function showOutline() {
  const { tree, layout } = app;
  const list = byId("outline");
  const hadFocus = list.contains(document.activeElement);
  const rows = layout.cards.flatMap((card) => [outlineRow(tree, card), ...(card.shown.length && card.more ? [moreRow(card)] : [])]);
  list.replaceChildren(...rows);
  markOutline(hadFocus);
}

function outlineRow(tree, card) {
  const { node } = card;
  const hasChildren = tree.children[node].length > 0;
  const open = isOpen(tree, node);
  const siblings = node === 0 ? [0] : tree.children[tree.parent[node]];
  const label = tree.labels[node];
  const row = make(
    "div",
    {
      role: "treeitem",
      id: `item-${node}`,
      "aria-level": card.level + 1,
      "aria-expanded": hasChildren ? String(open) : null,
      "aria-setsize": siblings.length,
      "aria-posinset": siblings.indexOf(node) + 1,
      "aria-selected": "false",
      tabindex: "-1",
      onclick: (event) => {
        if (event.target.classList.contains("twist")) toggleNode(node);
        else {
          byId("view-tree").classList.remove("with-outline");
          byId("outline-toggle").setAttribute("aria-pressed", "false");
          selectNode(node);
        }
      },
      ondblclick: () => toggleNode(node),
    },
    make("span", { class: "twist", "aria-hidden": "true" }, hasChildren ? (open ? "▾" : "▸") : ""),
    named(label ? cut(label, 160) : nameOf(tree, node)),
    make("span", { class: "count" }, whole(tree.through[node])),
  );
  row.style.paddingInlineStart = `${6 + indent(card.level)}px`;
  return row;
}

// Less and less from level to level, so that deep nodes keep room for their names.
function indent(level) {
  return 90 * (1 - Math.exp(-level / 6));
}

function moreRow(card) {
  const words = `${plural(card.more.nodes, "more node")}, ${whole(card.more.data)} data`;
  const row = make("div", { role: "treeitem", class: "more", "aria-level": card.level + 2, "aria-label": `Show ${words}`, title: "Show them", onclick: () => openAll(card.node) }, named(`+ ${plural(card.more.nodes, "node")}`));
  row.style.paddingInlineStart = `${23 + indent(card.level + 1)}px`;
  return row;
}

function markOutline(focus) {
  const list = byId("outline");
  for (const row of list.querySelectorAll('[aria-selected="true"], [tabindex="0"]')) {
    row.setAttribute("aria-selected", "false");
    row.tabIndex = -1;
  }
  const row = byId(`item-${app.selected}`) || list.firstElementChild;
  if (!row) return;
  if (row.id === `item-${app.selected}`) row.setAttribute("aria-selected", "true");
  row.tabIndex = 0;
  if (focus) row.focus({ preventScroll: true });
  const { offsetTop, offsetHeight } = row;
  const frame = list.parentElement;
  if (offsetTop < frame.scrollTop) frame.scrollTop = offsetTop - 8;
  else if (offsetTop + offsetHeight > frame.scrollTop + frame.clientHeight) frame.scrollTop = offsetTop + offsetHeight - frame.clientHeight + 8;
}

// Arrow keys, in the outline and on the drawing. Returns whether the key was one of ours.
function navigate(event) {
  const { tree, layout, selected } = app;
  const nodes = layout.cards.map((card) => card.node);
  const at = Math.max(nodes.indexOf(selected), 0);
  const open = isOpen(tree, selected);
  const moves = {
    ArrowDown: () => selectNode(nodes[Math.min(at + 1, nodes.length - 1)]),
    ArrowUp: () => selectNode(nodes[Math.max(at - 1, 0)]),
    ArrowRight: () => {
      if (open) selectNode(shownChildren(tree, selected)[0]);
      else if (tree.children[selected].length) toggleNode(selected);
    },
    ArrowLeft: () => {
      if (open) toggleNode(selected);
      else if (selected !== 0) selectNode(tree.parent[selected]);
    },
    Home: () => selectNode(0),
    End: () => selectNode(nodes[nodes.length - 1]),
    Enter: () => toggleNode(selected),
    " ": () => toggleNode(selected),
    "+": () => zoomMiddle(1.25),
    "=": () => zoomMiddle(1.25),
    "-": () => zoomMiddle(0.8),
    0: () => fit(layout),
  };
  const move = moves[event.key];
  if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  move();
}
