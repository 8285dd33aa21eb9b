// Draws the plots of a training session with uPlot: a line of last values over a band from lowest to highest.
// A plot is fetched when it comes into view, again when new points arrive, and read with the keyboard.

const BETWEEN_FETCHES_MS = 1000;
const announcer = document.createElement("p");
announcer.className = "unseen";
announcer.setAttribute("role", "status");
document.body.append(announcer);

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const charts = new Map();

/** Four significant digits; scientific below 1e-3 and from 1e6. */
function numberWords(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size < 1e-3 || size >= 1e6
    ? value.toExponential(3).replace("e+", "e")
    : value.toLocaleString("en-US", { maximumSignificantDigits: Math.max(4, Math.floor(Math.log10(size)) + 1) });
  return text.replace("-", "−");
}

function stepWords(step) {
  if (step >= 1e6) return `${(step / 1e6).toLocaleString("en-US", { maximumFractionDigits: 2 })} M`;
  if (step >= 1e4) return `${(step / 1e3).toLocaleString("en-US", { maximumFractionDigits: 1 })} k`;
  return grouped.format(step);
}

/** The present value of a colour token, which the canvas cannot read by itself. */
function colour(token) {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  probe.hidden = true;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function fade(rgb, alpha) {
  const [red, green, blue] = rgb.match(/[\d.]+/g);
  return `rgba(${red}, ${green}, ${blue}, ${alpha})`;
}

class Chart {
  constructor(figure, job, superseded) {
    this.figure = figure;
    this.key = figure.dataset.chart;
    this.title = figure.dataset.title;
    this.address = `/sessions/${job}/series?key=${encodeURIComponent(this.key)}${superseded ? "&superseded=1" : ""}`;
    this.plot = figure.querySelector("[data-plot]");
    this.readout = figure.querySelector("[data-readout]");
    this.data = null;
    this.uplot = null;
    this.visible = false;
    this.dirty = true;
    this.busy = false;
    this.fetchedMs = 0;
    this.index = null;
    this.announceTimer = 0;
    this.prepare();
  }

  prepare() {
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "application");
    this.plot.setAttribute("aria-roledescription", "plot");
    this.plot.setAttribute("aria-label", `${this.title}. Left and right arrow move the cursor, Home and End go to the ends, plus and minus zoom, 0 shows all.`);
    this.plot.addEventListener("keydown", (event) => this.onKey(event));
    this.reset = document.createElement("button");
    this.reset.type = "button";
    this.reset.className = "quiet";
    this.reset.textContent = "Reset zoom";
    this.reset.hidden = true;
    this.reset.addEventListener("click", () => {
      this.zoom(null);
      this.plot.focus();
    });
    this.figure.querySelector(".chart-tools").append(this.reset);
    this.figure.querySelector("[data-values]").addEventListener("click", (event) => this.showTable(event));
  }

  get zoomed() {
    return !this.reset.hidden;
  }

  async refresh() {
    if (!this.visible || !this.dirty || this.busy) return;
    this.busy = true;
    const waitMs = Math.max(0, this.fetchedMs + BETWEEN_FETCHES_MS - Date.now());
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    this.dirty = false;
    this.fetchedMs = Date.now();
    try {
      const buckets = Math.max(100, Math.min(1200, Math.round(this.plot.clientWidth)));
      const answer = await fetch(`${this.address}&buckets=${buckets}`);
      if (answer.ok && answer.headers.get("content-type")?.startsWith("application/json")) this.take(await answer.json());
    } catch {
      this.dirty = true; // the stream notices a coordinator that is gone, and says when it is back
    }
    this.busy = false;
    if (this.dirty && this.data) this.refresh();
  }

  take(data) {
    this.data = data;
    this.figure.querySelector("[data-summary]").textContent = data.summary;
    const columns = [data.x, data.low, data.high, data.last];
    if (!this.uplot) {
      this.draw(columns);
    } else if (this.zoomed) {
      this.uplot.setData(columns, false);
      this.uplot.redraw();
    } else {
      this.uplot.setData(columns);
    }
  }

  draw(columns) {
    const ink = colour("--ink-soft");
    const grid = { stroke: colour("--line"), width: 1 };
    const stroke = colour("--blue");
    const few = columns[0].length < 60;
    const axis = { stroke: ink, grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const options = {
      width: this.plot.clientWidth,
      height: 220,
      legend: { show: false },
      cursor: { y: false, points: { size: 8, fill: stroke, show: (uplot, series) => series === 3 }, drag: { x: true, y: false } },
      scales: { x: { time: false }, y: { range: (uplot, low, high) => this.limits(low, high) } },
      axes: [
        { ...axis, size: 34, values: (uplot, splits) => splits.map(stepWords) },
        { ...axis, size: 58, values: (uplot, splits) => splits.map(numberWords) },
      ],
      series: [
        {},
        { stroke: "transparent", points: { show: false } },
        { stroke: "transparent", points: { show: false } },
        { stroke, width: 2, points: { show: few, size: 5, fill: stroke } },
      ],
      bands: [{ series: [2, 1], fill: fade(stroke, 0.2) }],
      hooks: {
        draw: [(uplot) => this.drawMarks(uplot)],
        setCursor: [(uplot) => this.onCursor(uplot)],
        setScale: [(uplot, scale) => scale === "x" && this.noticeZoom(uplot)],
      },
    };
    this.uplot = new window.uPlot(options, columns, this.plot);
    this.sizes ??= new ResizeObserver(() => this.uplot?.setSize({ width: this.plot.clientWidth, height: 220 }));
    this.sizes.observe(this.plot);
  }

  /** Room above and below, also where all values are alike or none is finite. */
  limits(low, high) {
    if (low === null || high === null || low === undefined) return [0, 1];
    const room = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
    return [low - room, high + room];
  }

  drawMarks(uplot) {
    const { ctx, bbox } = uplot;
    const ratio = devicePixelRatio;
    this.drawSuperseded(uplot);
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--ink-soft");
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    ctx.setLineDash([5 * ratio, 4 * ratio]);
    for (const [step, attempt] of this.data.edges) {
      if (attempt <= 1) continue;
      const x = uplot.valToPos(step, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(`attempt ${attempt}`, x + 4 * ratio, bbox.top + 11 * ratio);
    }
    ctx.strokeStyle = ctx.fillStyle = colour("--amber");
    ctx.setLineDash([2 * ratio, 3 * ratio]);
    const rows = [0, 0, 0];
    for (const [step, word] of this.data.flags) {
      const x = uplot.valToPos(step, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      // Words that would stand on each other take the next row; where none is free the line has to do.
      const row = rows.findIndex((end) => end <= x);
      if (row < 0) continue;
      const text = `⚑ ${word}`;
      rows[row] = x + 8 * ratio + ctx.measureText(text).width;
      ctx.fillText(text, x + 4 * ratio, bbox.top + (24 + 13 * row) * ratio);
    }
    ctx.fillStyle = colour("--red");
    for (const [step, kind] of this.data.marks) {
      const x = uplot.valToPos(step, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      const shape = { NaN: "✕", "+∞": "▲", "−∞": "▼" }[kind];
      ctx.fillText(shape, x - 4 * ratio, kind === "+∞" ? bbox.top + 11 * ratio : bbox.top + bbox.height - 3 * ratio);
    }
    ctx.restore();
  }

  /** What older attempts said beyond the step at which a newer one went on: faint, and cut off at the edges. */
  drawSuperseded(uplot) {
    const { ctx, bbox } = uplot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.strokeStyle = fade(colour("--ink-soft"), 0.6);
    ctx.lineWidth = 1.5 * devicePixelRatio;
    for (const line of this.data.superseded) {
      let pen = false;
      ctx.beginPath();
      for (const [index, step] of line.x.entries()) {
        const value = line.last[index];
        if (value === null) {
          pen = false;
          continue;
        }
        const place = [uplot.valToPos(step, "x", true), uplot.valToPos(value, "y", true)];
        if (pen) ctx.lineTo(...place);
        else ctx.moveTo(...place);
        pen = true;
      }
      ctx.stroke();
    }
    ctx.restore();
  }

  onCursor(uplot) {
    const index = uplot.cursor.idx;
    if (index === null || index === undefined || uplot.cursor.left < 0) {
      if (!this.plot.matches(":focus")) this.readout.textContent = "";
      return;
    }
    this.index = index;
    this.readout.textContent = this.words(index);
  }

  words(index) {
    const { x, low, high, last, marks, flags } = this.data;
    const mark = marks.find(([step]) => step === x[index]);
    const value = last[index] === null ? mark?.[1] ?? "no value" : numberWords(last[index]);
    const spread = low[index] !== high[index] ? ` (${numberWords(low[index])} to ${numberWords(high[index])})` : "";
    const after = index ? x[index - 1] : -1;
    const flagged = flags.filter(([step]) => step > after && step <= x[index]).map(([, word]) => ` · flagged: ${word}`);
    return `Step ${grouped.format(x[index])} · ${value}${spread}${flagged.join("")}`;
  }

  onKey(event) {
    if (!this.uplot || !this.data?.x.length) return;
    const end = this.data.x.length - 1;
    const from = this.index ?? end;
    const moves = { ArrowLeft: from - 1, ArrowRight: from + 1, PageUp: from - 10, PageDown: from + 10, Home: 0, End: end };
    if (event.key in moves) this.moveTo(Math.min(end, Math.max(0, moves[event.key])));
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0") this.zoom(null);
    else return;
    event.preventDefault();
  }

  moveTo(index) {
    this.index = index;
    const left = this.uplot.valToPos(this.data.x[index], "x");
    const value = this.data.last[index];
    this.uplot.setCursor({ left, top: value === null ? 0 : this.uplot.valToPos(value, "y") });
    this.readout.textContent = this.words(index);
    clearTimeout(this.announceTimer);
    this.announceTimer = setTimeout(() => {
      announcer.textContent = `${this.title}: ${this.words(index)}`;
    }, 300);
  }

  /** Zoom around the cursor by a factor; null shows all. */
  zoom(factor) {
    if (!this.uplot || !this.data?.x.length) return;
    const { x } = this.data;
    const [first, last] = [x[0], x[x.length - 1]];
    if (factor === null) {
      this.uplot.setScale("x", { min: first, max: last });
      return;
    }
    const { min, max } = this.uplot.scales.x;
    const middle = this.index === null ? (min + max) / 2 : x[this.index];
    const half = ((max - min) * factor) / 2;
    this.uplot.setScale("x", { min: Math.max(first, middle - half), max: Math.min(last, middle + half) });
  }

  noticeZoom(uplot) {
    const { x } = this.data;
    const { min, max } = uplot.scales.x;
    this.reset.hidden = !(x.length > 1 && (min > x[0] || max < x[x.length - 1]));
  }

  async showTable(event) {
    if (event.metaKey || event.ctrlKey || event.button !== 0) return;
    event.preventDefault();
    const link = event.currentTarget;
    const shown = this.figure.querySelector(".chart-data");
    link.firstChild.textContent = shown ? "Show as table" : "Hide table";
    if (shown) {
      shown.remove();
      return;
    }
    const answer = await fetch(link.href, { headers: { "Stoker-Region": "yes" } });
    const values = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("values");
    if (!values) {
      location.href = link.href;
      return;
    }
    const box = document.createElement("div");
    box.className = "chart-data";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Values of ${this.title}`);
    box.append(...document.importNode(values, true).childNodes);
    this.figure.append(box);
  }

  recolour() {
    if (!this.uplot) return;
    this.uplot.destroy();
    this.uplot = null;
    this.draw([this.data.x, this.data.low, this.data.high, this.data.last]);
  }

  end() {
    this.sizes?.disconnect();
    this.uplot?.destroy();
  }
}

const sight = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const chart = charts.get(entry.target);
    if (!chart) continue;
    chart.visible = entry.isIntersecting;
    chart.refresh();
  }
}, { rootMargin: "200px" });

function start() {
  const root = document.getElementById("charts");
  for (const [figure, chart] of charts) {
    if (figure.isConnected) continue;
    chart.end();
    charts.delete(figure);
  }
  for (const figure of root?.querySelectorAll("[data-chart]") ?? []) {
    if (charts.has(figure)) continue;
    charts.set(figure, new Chart(figure, root.dataset.job, root.dataset.superseded === "yes"));
    sight.observe(figure);
  }
}

let rebuilding = false;
/** Fetch the page's charts again when a metric arrived that has no chart yet. */
async function rebuild(job) {
  if (rebuilding) return;
  rebuilding = true;
  const open = [...document.querySelectorAll("#charts details[open]")].map((details) => details.id);
  try {
    await window.htmx.ajax("GET", `/sessions/${job}`, {
      target: "#charts", select: "#charts", swap: "outerHTML", headers: { "Stoker-Region": "yes" },
    });
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    start();
  } catch {
    // the next notice tries again
  }
  rebuilding = false;
}

document.addEventListener("stoker:changes", (event) => {
  const root = document.getElementById("charts");
  if (!root) return;
  const mine = event.detail.notices.filter((notice) => notice.kind === "metrics" && notice.id === root.dataset.job);
  if (!mine.length && !event.detail.all) return;
  const names = mine.flatMap((notice) => notice.detail.names ?? []);
  const known = new Set([...charts.values()].map((chart) => chart.key));
  const empty = document.getElementById("no-metrics");
  if (empty || names.some((name) => !known.has(name) && !name.startsWith("benchmark/"))) rebuild(root.dataset.job);
  for (const chart of charts.values()) {
    chart.dirty = true;
    chart.refresh();
  }
});
for (const query of ["(prefers-color-scheme: dark)"]) {
  matchMedia(query).addEventListener("change", () => {
    for (const chart of charts.values()) chart.recolour();
  });
}
start();
