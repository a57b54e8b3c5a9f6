"use strict";
// Texts of the cluster are put in by textContent alone. Only the rows in sight are in the document.
const ROW = 26, EVERY_MS = 2000;
const at = (id) => document.getElementById(id);
const number = (value, digits = 0) =>
  value === null ? "" : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const text = (value, style) => ({ value, style });
const STATES = ["moving", "now", "later", "stays", "unknown"];

// A column: title, width, what a row sorts by, what a cell shows.
const column = (title, width, key, show, kind) => ({ title, width, key, show: show || key, kind });
const bars = (cpu, memory) => [
  column("cpu", "9.5rem", cpu, cpu, "bar"), column("memory", "9.5rem", memory, memory, "bar"),
];
const VIEWS = {
  nodes: {
    rows: (data) => data.nodes.map((row) => ({
      name: row[0], group: data.texts[row[1]], cpu: row[2], memory: row[3], pods: row[4], price: row[5],
      state: data.texts[row[6]], verdict: data.texts[row[7]],
    })),
    columns: [
      column("name", "22%", (row) => row.name, (row) => text(row.name, row.state)),
      column("group", "14%", (row) => row.group),
      ...bars((row) => row.cpu, (row) => row.memory),
      column("pods", "4.5rem", (row) => row.pods, null, "number"),
      column("price/h", "7rem", (row) => row.price, (row) => number(row.price, 2), "number"),
      column("what the plan says", "", (row) => `${STATES.indexOf(row.state)}${row.verdict}`, (row) => text(row.verdict, row.state)),
    ],
    node: (row) => row.name,
  },
  groups: {
    rows: (data) => data.groups.map((row) => ({
      group: row[0], nodes: row[1], going: row[2], added: row[3], least: row[4], most: row[5], cpu: row[6], memory: row[7], price: row[8],
    })),
    columns: [
      column("group", "", (row) => row.group, (row) => row.group || "(no group)"),
      column("nodes", "5rem", (row) => row.nodes, null, "number"),
      column("can go", "5rem", (row) => row.going, (row) => row.going || "", "number"),
      column("to add", "5rem", (row) => row.added, (row) => row.added || "", "number"),
      column("minimum", "6rem", (row) => row.least, (row) => row.least < 0 ? "" : number(row.least), "number"),
      column("maximum", "6rem", (row) => row.most, (row) => row.most < 0 ? "" : number(row.most), "number"),
      ...bars((row) => row.cpu, (row) => row.memory),
      column("price/h", "8rem", (row) => row.price, (row) => row.price ? number(row.price, 2) : "", "number"),
    ],
    open: (row) => { at("group").value = row.group; show("nodes"); },
  },
  pending: {
    rows: (data) => data.pending.map((row) => ({ pods: row[0], owner: row[1], reason: row[2], served: row[3] })),
    columns: [
      column("pods", "5rem", (row) => row.pods, null, "number"),
      column("of", "35%", (row) => row.owner),
      column("what becomes of them", "", (row) => row.reason, (row) => text(row.reason, row.served ? "" : "warn")),
    ],
    told: (row) => `${number(row.pods)} pods of ${row.owner}: ${row.reason}`,
  },
  deletions: {
    rows: (data) => data.removals.map((row) => ({
      name: row[0], group: row[1], state: row[2], seconds: row[3], gone: row[4], total: row[5], over: row[6], detail: row[7],
    })),
    columns: [
      column("node", "25%", (row) => row.name, (row) => text(row.name, row.over ? "over" : "moving")),
      column("group", "15%", (row) => row.group),
      column("state", "8rem", (row) => row.state, (row) => text(row.state, row.over ? "over" : "moving")),
      column("for seconds", "7rem", (row) => row.seconds, (row) => number(row.seconds), "number"),
      column("pods gone", "7rem", (row) => row.gone, (row) => row.gone === null ? "empty" : row.total > 0 ? `${row.gone} of ${row.total}` : ""),
      column("why", "", (row) => row.detail),
    ],
    node: (row) => row.name,
  },
  growth: {
    rows: (data) => data.growth.map((row) => ({
      group: row[0], current: row[1], next: row[2], most: row[3], pods: row[4], price: row[5], reason: row[6],
    })),
    columns: [
      column("group", "25%", (row) => row.group),
      column("nodes", "8rem", (row) => row.next - row.current, (row) => `${number(row.current)} → ${number(row.next)}`),
      column("maximum", "6rem", (row) => row.most, (row) => row.most < 0 ? "" : number(row.most), "number"),
      column("pods", "5rem", (row) => row.pods, null, "number"),
      column("price/h", "8rem", (row) => row.price, (row) => number(row.price, 2), "number"),
      column("because", "", (row) => row.reason),
    ],
    told: (row) => `Node group ${row.group} grows from ${row.current} to ${row.next} nodes. ${row.reason}`,
  },
};

let data = null, view = "nodes", sort = null, reversed = false, rows = [], version = "", received = 0;

function element(name, content, style) {
  const found = document.createElement(name);
  if (content !== undefined) found.textContent = content;
  if (style) found.className = style;
  return found;
}

function cell(row, one) {
  const shown = one.show(row), found = element("td", undefined, one.kind === "number" ? "number" : "");
  if (one.kind === "bar") {
    const bar = element("span", undefined, "bar"), full = element("i");
    full.className = shown > 100 ? "high" : shown < 50 ? "low" : "";
    full.style.width = `${Math.min(shown, 100)}%`;
    bar.append(full);
    found.append(bar, `${shown} %`);
  } else if (shown && typeof shown === "object") {
    found.append(element("span", shown.value, shown.style));
    found.title = shown.value;
  } else {
    found.textContent = shown;
    found.title = shown;
  }
  return found;
}

function select() {
  const words = at("filter").value.toLowerCase().split(/\s+/).filter(Boolean), group = at("group").value;
  const columns = VIEWS[view].columns;
  rows = VIEWS[view].rows(data).filter((row) => {
    if (group !== "*" && row.group !== undefined && row.group !== group) return false;
    const all = Object.values(row).join(" ").toLowerCase();
    return words.every((word) => all.includes(word));
  });
  if (sort !== null && sort < columns.length) {
    const key = columns[sort].key, way = reversed ? -1 : 1;
    rows.sort((one, other) => {
      const a = key(one), b = key(other);
      if (a === null || b === null) return (a === null) - (b === null);
      return way * (typeof a === "string" ? a.localeCompare(b) : a - b);
    });
  }
  at("count").textContent = `${number(rows.length)} rows`;
  titles();
  draw();
}

function titles() {
  at("titles").replaceChildren(...VIEWS[view].columns.map((one, place) => {
    const found = element("th", undefined, one.kind === "number" ? "number" : "");
    const mark = sort === place ? (reversed ? " ▼" : " ▲") : "";
    const button = element("button", one.title + mark);
    button.onclick = () => {
      reversed = sort === place ? !reversed : Boolean(one.kind);
      sort = place;
      select();
    };
    found.scope = "col";
    found.setAttribute("aria-sort", sort === place ? (reversed ? "descending" : "ascending") : "none");
    if (one.width) found.style.width = one.width;
    found.append(button);
    return found;
  }));
}

function draw() {
  const frame = at("frame"), columns = VIEWS[view].columns;
  const first = Math.max(0, Math.floor(frame.scrollTop / ROW) - 10);
  const last = Math.min(rows.length, first + Math.ceil(frame.clientHeight / ROW) + 20);
  const space = (height) => {
    const found = element("tr", undefined, "space"), inside = element("td");
    inside.colSpan = columns.length;
    found.style.height = inside.style.height = `${height}px`;
    found.append(inside);
    return found;
  };
  const lines = rows.slice(first, last).map((row) => {
    const line = element("tr", undefined, "open");
    line.tabIndex = 0;
    line.append(...columns.map((one) => cell(row, one)));
    line.onclick = () => open(row);
    line.onkeydown = (event) => { if (event.key === "Enter") open(row); };
    return line;
  });
  at("rows").replaceChildren(space(first * ROW), ...lines, space((rows.length - last) * ROW));
}

async function open(row) {
  const kind = VIEWS[view];
  if (kind.open) return kind.open(row);
  let told = kind.told ? kind.told(row) : row.name;
  if (kind.node) {
    const answer = await fetch(`node?name=${encodeURIComponent(kind.node(row))}`);
    if (answer.ok) told = await answer.text();
    if (row.detail) told = `${row.detail}\n\n${told}`;
  }
  at("told").textContent = told;
  at("details").showModal();
}

function show(name) {
  view = name;
  sort = null;
  at("frame").scrollTop = 0;
  for (const one of at("views").children) one.setAttribute("aria-selected", String(one.dataset.view === name));
  select();
}

function figure(title, value, more) {
  const found = element("div");
  found.append(element("small", title), element("b", value), element("small", more || ""));
  return found;
}

function head() {
  const sums = data.figures, after = sums.nodes - sums.removed + sums.added, saved = sums.perMonth - sums.perMonthAfter;
  const unit = `${sums.currency ? ` ${sums.currency}` : ""} a month${sums.assumption ? ", assumed prices" : ""}`;
  document.title = data.name ? `${data.name}: Trimtab` : "Trimtab";
  at("name").textContent = data.name || "Trimtab";
  const moving = data.removals.filter((row) => !row[6]).length;
  const money = sums.perMonth || sums.perMonthAfter ? [
    figure("money now", number(sums.perMonth), unit), figure("after the plan", number(sums.perMonthAfter), unit),
    figure(saved < 0 ? "more" : "saved", number(Math.abs(saved)), unit),
  ] : [];
  at("figures").replaceChildren(
    figure("nodes", `${number(sums.nodes)} → ${number(after)}`, `${number(sums.removed)} can go, ${number(sums.added)} to add`),
    ...money,
    figure("requested", `${data.cpu} % / ${data.memory} %`, "of cpu / of memory"),
    figure("pending pods", number(data.waiting)), figure("deletions", number(moving), "in progress"),
  );
  at("sentences").replaceChildren(...data.sentences.map((one) => element("p", one)));
  const group = at("group"), before = group.value || "*";
  const option = (value, label) => { const found = element("option", label); found.value = value; return found; };
  group.replaceChildren(option("*", "all"), ...data.groups.map((row) => option(row[0], row[0] || "(no group)")));
  group.value = data.groups.some((row) => row[0] === before) ? before : "*";
}

function when() {
  if (!data) return;
  const seconds = Math.max(0, Math.round(data.age + (performance.now() - received) / 1000));
  at("when").textContent = `plan of ${new Date(1000 * data.time).toISOString().replace("T", " ").slice(0, 19)} UTC, ${number(seconds)} s ago`;
}

function tell(trouble) {
  at("trouble").hidden = !trouble;
  at("trouble").textContent = trouble;
}

async function refresh() {
  try {
    const answer = await fetch("screen.json", { headers: version ? { "If-None-Match": version } : {}, cache: "no-store" });
    if (answer.status === 200) {
      data = await answer.json();
      version = answer.headers.get("ETag") || "";
      received = performance.now();
      head();
      select();
      tell(data.trouble);
    } else if (answer.status === 304) {
      tell(data.trouble);
    } else {
      tell((await answer.text()).trim());
    }
  } catch {
    tell("the loop does not answer; the last plan stays");
  }
  when();
}

at("views").append(...Object.keys(VIEWS).map((name) => {
  const button = element("button", name);
  button.dataset.view = name;
  button.setAttribute("role", "tab");
  button.onclick = () => { if (data) show(name); };
  button.setAttribute("aria-selected", String(name === view));
  return button;
}));
at("filter").oninput = () => { if (data) { at("frame").scrollTop = 0; select(); } };
at("group").onchange = () => { if (data) { at("frame").scrollTop = 0; select(); } };
at("frame").onscroll = () => { if (data) draw(); };
window.onresize = () => { if (data) draw(); };
setInterval(when, 1000);
(async () => { for (;;) { await refresh(); await new Promise((done) => setTimeout(done, EVERY_MS)); } })();
