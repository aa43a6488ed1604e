// The slice on the right: its controls, and loading from coarse to fine. Whatever is moved cancels what is under way.

import { askJson } from "./api.js";
import { colours, Drawing } from "./drawing.js";
import * as numbers from "./numbers.js";
import { COARSEST, fetchPass, innerRange, plan } from "./passes.js";

const $ = (id) => document.getElementById(id);
const BOUNDS = ["", "rel:1e-6", "rel:1e-5", "rel:1e-4", "rel:1e-3", "rel:1e-2", "rel:1e-1", "rel:1"];
const TWO_SIDED = 0.25; // of the longer side, and colours are even around 0
const MOST_STRETCH = 4; // shapes further from a square fill the canvas
const ZOOM = 1.3;

export class Viewer {
  #about;
  #report;
  #drawing = new Drawing($("picture"));
  #tables = new Map();
  #running = new AbortController();
  #array = null; // what is shown: path, facts, face, at, rows, columns, view
  #layers = []; // data of the slice as it is now: a whole coarse one, then the finest
  #boundLevel = 0;
  #drag = null;
  #size = ""; // of the canvas when something was asked for last

  constructor(about, report) {
    this.#about = about;
    this.#report = report;
    for (const id of ["rows", "columns"]) $(id).addEventListener("change", () => this.#turn(id));
    for (const id of ["part", "compact", "level"]) $(id).addEventListener("input", () => this.#load(id !== "level"));
    for (const id of ["map", "range"]) $(id).addEventListener("input", () => this.#draw());
    for (const id of ["low", "high"]) {
      $(id).addEventListener("input", () => {
        $("range").value = "fixed";
        this.#draw();
      });
    }
    $("bound").addEventListener("input", () => this.#setBound(BOUNDS[$("bound").valueAsNumber]));
    $("bound-text").addEventListener("change", () => this.#setBound($("bound-text").value.trim()));
    $("closer").addEventListener("click", () => this.#zoom(1 / ZOOM));
    $("further").addEventListener("click", () => this.#zoom(ZOOM));
    $("all").addEventListener("click", () => this.#showAll());
    this.#listenToCanvas();
    new ResizeObserver(() => {
      if (this.#array && this.#size !== this.#sizeNow()) this.#load(false);
    }).observe($("picture"));
  }

  /** Shows an array of a file, as files.js has them. */
  async show(path, name, file, facts) {
    this.#running.abort();
    this.#running = new AbortController();
    const { signal } = this.#running;
    this.#array = null;
    this.#layers = [];
    $("viewer").hidden = false;
    $("name").textContent = facts.name ? `${name}: ${facts.name}` : name;
    $("facts").textContent = "";
    $("shown").textContent = "\u00a0";
    delete $("shown").dataset.level;
    this.#drawing.clear();
    try {
      const face = await askJson("array", path, { array: facts.name }, signal);
      this.#array = { path, facts, face, ...this.#firstLook(face) };
      this.#boundLevel = 0;
      $("bound").value = "0";
      $("bound-text").value = "";
      $("bound-says").textContent = "";
      $("level").value = "0";
      $("range").value = "whole";
      this.#describe(facts, face);
      this.#makeControls();
      this.#showAll();
    } catch (problem) {
      if (problem.name !== "AbortError") this.#report(problem);
    }
  }

  /** The last two axes that are not short, through the middle of the others. */
  #firstLook(face) {
    const rank = face.shape.length;
    const long = face.shape.map((extent, axis) => [extent, axis]).filter(([extent]) => extent >= 16);
    const picked = long.length >= 2 ? long.slice(-2).map(([, axis]) => axis) : [rank - 2, rank - 1];
    return {
      at: face.shape.map((extent) => Math.floor(extent / 2)),
      rows: rank >= 2 ? picked[0] : null,
      columns: rank >= 1 ? picked[1] : null,
    };
  }

  #describe(facts, face) {
    const type = face.complex ? `complex of two ${face.dtype}` : face.dtype;
    const range = facts.min < facts.max ? `, ${numbers.number(facts.min)} to ${numbers.number(facts.max)}` : "";
    $("facts").textContent =
      `${type}, ${face.shape.join(" × ") || "scalar"}${range}; ${numbers.bytes(facts.size)} stored as ` +
      `${numbers.bytes(facts.stored)}, ${numbers.ratio(facts.size, facts.stored)}; bound ${facts.bound}` +
      `${facts.why ? ` (${facts.why})` : ""}${facts.method ? `; ${facts.method}` : ""}`;
    const body = $("levels").tBodies[0];
    body.replaceChildren();
    let sum = 0;
    for (let level = COARSEST; level >= 0; --level) {
      const stored = facts.levels?.[level];
      if (stored === undefined) continue;
      sum += stored;
      const error = facts.max_error?.[level];
      const line = body.insertRow();
      line.dataset.level = level;
      const off = error == null ? "not known" : numbers.number(error);
      for (const text of [level, numbers.bytes(stored), numbers.bytes(sum), off]) {
        line.insertCell().textContent = text;
      }
    }
  }

  #makeControls() {
    const { face, rows, columns } = this.#array;
    $("part-label").hidden = !face.complex;
    for (const [id, chosen] of [["rows", rows], ["columns", columns]]) {
      const options = face.axes.map((name, axis) => new Option(`${name} (${face.shape[axis]})`, axis, false, axis === chosen));
      $(id).replaceChildren(...options);
      $(id).disabled = chosen === null;
    }
    this.#makeIndices();
  }

  /** A slider and a number for each axis that is not shown. */
  #makeIndices() {
    const { face, at, rows, columns } = this.#array;
    const made = [];
    face.shape.forEach((extent, axis) => {
      if (axis === rows || axis === columns) return;
      const label = document.createElement("label");
      const [slider, field] = ["range", "number"].map((type) => {
        const input = document.createElement("input");
        Object.assign(input, { type, min: 0, max: Math.max(0, extent - 1), step: 1, value: at[axis] });
        input.dataset.axis = axis;
        input.setAttribute("aria-label", `index along ${face.axes[axis]}`);
        input.addEventListener("input", () => {
          const index = input.valueAsNumber;
          if (!Number.isInteger(index) || index < 0 || index >= extent) return;
          at[axis] = index;
          (input === slider ? field : slider).value = index;
          this.#load(true);
        });
        return input;
      });
      label.append(`${face.axes[axis]} =`, slider, field);
      made.push(label);
    });
    $("indices").replaceChildren(...made);
  }

  /** Another axis for rows or columns; if it is the other's, they change places. */
  #turn(id) {
    const array = this.#array;
    if (!array) return;
    const other = id === "rows" ? "columns" : "rows";
    const chosen = Number($(id).value);
    if (array[other] === chosen) array[other] = array[id];
    array[id] = chosen;
    this.#makeControls();
    this.#showAll();
  }

  async #setBound(bound) {
    const array = this.#array;
    if (!array) return;
    $("bound-text").value = bound;
    const place = BOUNDS.indexOf(bound);
    if (place >= 0) $("bound").value = String(place);
    $("bound-says").textContent = "";
    this.#boundLevel = 0;
    if (bound !== "") {
      try {
        const found = await askJson("level", array.path, { array: array.facts.name, bound });
        if (this.#array !== array || $("bound-text").value !== bound) return;
        this.#boundLevel = found.kept ? found.level : 0;
        $("bound-says").textContent = found.kept
          ? `kept from level ${found.level} on (differs by ${numbers.number(found.max_error)} at most)`
          : found.says;
      } catch (problem) {
        if (this.#array !== array || $("bound-text").value !== bound) return;
        $("bound-says").textContent = problem.message;
      }
    }
    this.#load(false);
  }

  #sizeNow() {
    return `${$("picture").clientWidth} ${$("picture").clientHeight}`;
  }

  #extent(axis) {
    return axis === null ? 1 : this.#array.face.shape[axis];
  }

  #showAll() {
    if (!this.#array) return;
    const [rows, columns] = [this.#extent(this.#array.rows), this.#extent(this.#array.columns)];
    const area = this.#drawing.area();
    const view = { bottom: 0, top: rows, left: 0, right: columns };
    if (this.#array.rows !== null && Math.max(rows / columns, columns / rows) <= MOST_STRETCH) {
      const scale = Math.max(rows / area.height, columns / area.width); // elements a pixel
      const [above, beside] = [(scale * area.height - rows) / 2, (scale * area.width - columns) / 2];
      Object.assign(view, { bottom: -above, top: rows + above, left: -beside, right: columns + beside });
    }
    this.#array.view = view;
    this.#load(true);
  }

  /** Loads what is visible; `other`: of another slice, so that nothing of the last one may stay. */
  #load(other) {
    const array = this.#array;
    if (!array) return;
    this.#running.abort();
    this.#running = new AbortController();
    const finest = Math.max($("level").valueAsNumber, this.#boundLevel);
    $("level-text").textContent = $("level").value;
    this.#size = this.#sizeNow();
    this.#run(array, finest, other, this.#running.signal);
  }

  #visible() {
    const { view, rows, columns } = this.#array;
    const area = this.#drawing.area();
    const scale = window.devicePixelRatio || 1;
    const along = (axis, from, to, pixels) => {
      if (axis === null) return null;
      const inside = (place) => Math.max(0, Math.min(place, this.#extent(axis)));
      const [low, high] = [inside(from), inside(to)];
      return { axis, low, high, pixels: Math.max(1, (pixels * scale * (high - low)) / (to - from)) };
    };
    return {
      rows: along(rows, view.bottom, view.top, area.height),
      columns: along(columns, view.left, view.right, area.width),
    };
  }

  async #run(array, finest, other, signal) {
    const what = { path: array.path, array: array.facts.name, dtype: array.face.dtype, at: [...array.at], part: $("part").value };
    const options = { compact: $("compact").checked };
    let fresh = other;
    if (!other && this.#layers.length > 0) this.#draw();
    try {
      for (const pass of plan(array.face.shape, this.#visible(), finest, this.#about.most_points)) {
        const begin = performance.now();
        const data = await fetchPass(what, pass, options, signal);
        if (signal.aborted) return;
        const whole = this.#layers.find((one) => one.whole);
        data.whole = [pass.rows, pass.columns].every(
          (one) => one === null || (one.start === 0 && one.stop === this.#extent(one.axis)),
        );
        this.#layers = fresh || data.whole || !whole ? [data] : [whole, data];
        fresh = false;
        this.#report(null);
        this.#draw();
        this.#say(data, performance.now() - begin);
      }
    } catch (problem) {
      if (problem.name === "AbortError" || signal.aborted) return;
      if (fresh) {
        this.#layers = [];
        this.#drawing.clear();
        $("shown").textContent = "\u00a0";
        delete $("shown").dataset.level;
        this.#report(problem);
      } else {
        const level = this.#layers[this.#layers.length - 1]?.level;
        this.#report(new Error(`${problem.message} (what is shown is level ${level}; finer ones cannot be read)`));
      }
    }
  }

  #say(data, milliseconds) {
    const error = this.#array.facts.max_error?.[data.level];
    const missing = data.missing > 0 ? `, ${data.missing} of them missing` : "";
    const off =
      error == null ? "its error is not stated"
      : error === 0 ? "exact"
      : `differs from what was written by ${numbers.number(error)} at most`;
    $("shown").textContent =
      `level ${data.level}: ${data.rows} × ${data.columns} points${missing}, ${numbers.bytes(data.bytes)} in ` +
      `${Math.round(milliseconds)} ms; ${off}`;
    $("shown").dataset.level = data.level;
    for (const line of $("levels").tBodies[0].rows) line.classList.toggle("chosen", line.dataset.level === String(data.level));
  }

  #range() {
    const latest = this.#layers[this.#layers.length - 1];
    if ($("range").value === "fixed") return { low: $("low").valueAsNumber || 0, high: $("high").valueAsNumber || 0 };
    const whole = latest.low === null ? null : { low: latest.low, high: latest.high };
    const found = $("range").value === "inner" ? innerRange(latest.values) : whole;
    return found ?? { low: 0, high: 1 };
  }

  #draw() {
    const array = this.#array;
    if (!array || this.#layers.length === 0) return;
    let range = this.#range();
    if ($("range").value !== "fixed") {
      $("low").value = numbers.number(range.low);
      $("high").value = numbers.number(range.high);
    }
    const latest = this.#layers[this.#layers.length - 1];
    if (array.columns === null) {
      this.#drawing.text(`${numbers.number(latest.values[0], 17)}`);
      return;
    }
    const labels = { columns: array.face.axes[array.columns], rows: array.rows === null ? "" : array.face.axes[array.rows] };
    if (array.rows === null) {
      this.#drawing.line(latest, array.view, this.#extent(array.columns), range, labels);
      return;
    }
    const twoSided = Math.min(-range.low, range.high) > TWO_SIDED * Math.max(-range.low, range.high);
    const map = $("map").value || (twoSided ? "diverging" : "cubehelix");
    if (!$("map").value && twoSided && $("range").value !== "fixed") {
      const most = Math.max(-range.low, range.high);
      range = { low: -most, high: most };
    }
    if (range.low === range.high) range = { low: range.low - 0.5, high: range.high + 0.5 };
    if (!this.#tables.has(map)) this.#tables.set(map, colours(this.#about.colours[map]));
    const extents = { rows: this.#extent(array.rows), columns: this.#extent(array.columns) };
    this.#drawing.picture(this.#layers, array.view, extents, range, this.#tables.get(map), labels);
  }

  /** Elements under a point of the canvas, fractional. */
  #place(event) {
    const area = this.#drawing.area();
    const box = $("picture").getBoundingClientRect();
    const across = (event.clientX - box.left - area.left) / area.width;
    const up = 1 - (event.clientY - box.top - area.top) / area.height;
    const { view } = this.#array;
    return { inside: across >= 0 && across < 1 && up >= 0 && up < 1, across, up,
             column: view.left + across * (view.right - view.left), row: view.bottom + up * (view.top - view.bottom) };
  }

  #zoom(factor, across = 0.5, up = 0.5) {
    if (!this.#array) return;
    const { view, rows } = this.#array;
    const scale = (low, high, share) => {
      const middle = low + share * (high - low);
      return [middle - share * (high - low) * factor, middle + (1 - share) * (high - low) * factor];
    };
    const [left, right] = scale(view.left, view.right, across);
    const [bottom, top] = rows === null ? [view.bottom, view.top] : scale(view.bottom, view.top, up);
    const most = 4 * Math.max(this.#extent(this.#array.columns), this.#extent(rows), 8);
    if (right - left < 2 || right - left > most || (rows !== null && top - bottom < 2)) return;
    this.#array.view = { left, right, bottom, top };
    this.#load(false);
  }

  #listenToCanvas() {
    const canvas = $("picture");
    canvas.addEventListener("wheel", (event) => {
      if (!this.#array) return;
      event.preventDefault();
      const at = this.#place(event);
      this.#zoom(event.deltaY > 0 ? ZOOM : 1 / ZOOM, at.across, at.up);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      if (!this.#array) return;
      canvas.setPointerCapture(event.pointerId);
      this.#drag = { x: event.clientX, y: event.clientY, view: this.#array.view };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.#array) return;
      if (this.#drag) this.#move(event);
      this.#readCursor(event);
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (this.#drag = null));
    canvas.addEventListener("dblclick", () => this.#showAll());
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "+" || event.key === "-") this.#zoom(event.key === "+" ? 1 / ZOOM : ZOOM);
    });
  }

  #move(event) {
    const area = this.#drawing.area();
    const { view } = this.#drag;
    const right = ((this.#drag.x - event.clientX) / area.width) * (view.right - view.left);
    const up = this.#array.rows === null ? 0 : ((event.clientY - this.#drag.y) / area.height) * (view.top - view.bottom);
    if (right === 0 && up === 0) return;
    this.#array.view = { left: view.left + right, right: view.right + right, bottom: view.bottom + up, top: view.top + up };
    this.#load(false);
  }

  /** The value of the point that is drawn under the cursor. */
  #readCursor(event) {
    const array = this.#array;
    const at = this.#place(event);
    $("cursor").textContent = "\u00a0";
    if (!at.inside || array.columns === null) return;
    for (const data of [...this.#layers].reverse()) {
      const column = Math.round((at.column - 0.5 - data.columnStart) / data.columnStep);
      const row = array.rows === null ? 0 : Math.round((at.row - 0.5 - data.rowStart) / data.rowStep);
      if (column < 0 || column >= data.columns || row < 0 || row >= data.rows) continue;
      const indices = [...array.at];
      indices[array.columns] = data.columnStart + column * data.columnStep;
      if (array.rows !== null) indices[array.rows] = data.rowStart + row * data.rowStep;
      const value = data.values[row * data.columns + column];
      const error = array.facts.max_error?.[data.level];
      $("cursor").textContent =
        `${indices.map((index, axis) => `${array.face.axes[axis]} = ${index}`).join(", ")}: ${numbers.number(value, 9)}` +
        `${error > 0 && Number.isFinite(value) ? ` (within ${numbers.number(error)}, level ${data.level})` : ""}`;
      return;
    }
  }
}
