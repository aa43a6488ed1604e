// Slices on a canvas: a picture or a line, with axes, ticks and a colour bar.

import * as numbers from "./numbers.js";

const GREY = "#b8b8b8"; // what is missing
const OUTSIDE = "#eef2f3"; // of the array
const MARGIN = { left: 70, top: 12, right: 96, bottom: 44 };
const BAR = { gap: 18, width: 16 };
const FONT = '12px "DejaVu Sans", sans-serif';

/** 256 colours, three bytes each, from hexadecimal text; none: shades of grey. */
export function colours(text) {
  const table = new Uint8Array(768);
  for (let i = 0; i < 768; ++i) table[i] = text ? parseInt(text.slice(2 * i, 2 * i + 2), 16) : Math.floor(i / 3);
  return table;
}

/**
 * What is drawn: `view` is the visible part in elements, rows upwards; points of data lie at start + i * step and stand
 * for as much around them.
 *   data: {values, rows, columns, rowStart, rowStep, columnStart, columnStep}
 *   view: {top, bottom, left, right}, bottom < top; extents: {rows, columns} of the array
 */
export class Drawing {
  #canvas;
  #context;

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d");
  }

  /** The area inside the axes, in CSS pixels. */
  area() {
    return {
      left: MARGIN.left,
      top: MARGIN.top,
      width: Math.max(1, this.#canvas.clientWidth - MARGIN.left - MARGIN.right),
      height: Math.max(1, this.#canvas.clientHeight - MARGIN.top - MARGIN.bottom),
    };
  }

  #begin() {
    const scale = window.devicePixelRatio || 1;
    const width = Math.round(this.#canvas.clientWidth * scale);
    const height = Math.round(this.#canvas.clientHeight * scale);
    if (this.#canvas.width !== width || this.#canvas.height !== height) {
      this.#canvas.width = width;
      this.#canvas.height = height;
    }
    const context = this.#context;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = "#fff";
    context.fillRect(0, 0, this.#canvas.clientWidth, this.#canvas.clientHeight);
    context.font = FONT;
    context.imageSmoothingEnabled = false;
    return context;
  }

  clear() {
    this.#begin();
  }

  /** Layers of data, the finest last. */
  picture(layers, view, extents, range, table, labels) {
    const context = this.#begin();
    const area = this.area();
    context.save();
    context.beginPath();
    context.rect(area.left, area.top, area.width, area.height);
    context.clip();
    context.fillStyle = OUTSIDE;
    context.fillRect(area.left, area.top, area.width, area.height);
    const x = (column) => area.left + ((column - view.left) / (view.right - view.left)) * area.width;
    const y = (row) => area.top + ((view.top - row) / (view.top - view.bottom)) * area.height;
    context.beginPath();
    context.rect(x(0), y(extents.rows), x(extents.columns) - x(0), y(0) - y(extents.rows));
    context.clip();
    context.fillStyle = GREY;
    context.fillRect(area.left, area.top, area.width, area.height);
    for (const data of layers) {
      const left = x(data.columnStart + 0.5 - data.columnStep / 2);
      const right = x(data.columnStart + 0.5 + (data.columns - 0.5) * data.columnStep);
      const bottom = y(data.rowStart + 0.5 - data.rowStep / 2);
      const top = y(data.rowStart + 0.5 + (data.rows - 0.5) * data.rowStep);
      if (data.rows > 0 && data.columns > 0) {
        context.drawImage(this.#image(data, range, table), left, top, right - left, bottom - top);
      }
    }
    context.restore();
    const across = { low: view.left, high: view.right, extent: extents.columns };
    this.#frame(context, area, across, { low: view.bottom, high: view.top, extent: extents.rows }, labels);
    this.#bar(context, area, range, table);
  }

  /** Rows from below, as an image that begins above. */
  #image(data, range, table) {
    const key = `${range.low} ${range.high}`;
    if (data.image && data.imageKey === key && data.imageTable === table) return data.image;
    const image = new ImageData(data.columns, data.rows);
    const pixels = image.data;
    const factor = range.high > range.low ? 255.999 / (range.high - range.low) : 0;
    for (let row = 0; row < data.rows; ++row) {
      let from = (data.rows - 1 - row) * data.columns;
      let to = row * data.columns * 4;
      for (let column = 0; column < data.columns; ++column, ++from, to += 4) {
        const value = data.values[from];
        if (value !== value) continue; // transparent
        const share = factor > 0 ? (value - range.low) * factor : 128;
        const at = 3 * (share < 0 ? 0 : share > 255 ? 255 : share | 0);
        pixels[to] = table[at];
        pixels[to + 1] = table[at + 1];
        pixels[to + 2] = table[at + 2];
        pixels[to + 3] = 255;
      }
    }
    data.image = document.createElement("canvas");
    data.image.width = data.columns;
    data.image.height = data.rows;
    data.image.getContext("2d").putImageData(image, 0, 0);
    data.imageKey = key;
    data.imageTable = table;
    return data.image;
  }

  /** One row of data as a line. */
  line(data, view, extent, range, labels) {
    const context = this.#begin();
    const area = this.area();
    const room = (range.high - range.low) * 0.05 || 0.5;
    const low = range.low - room;
    const high = range.high + room;
    context.save();
    context.beginPath();
    context.rect(area.left, area.top, area.width, area.height);
    context.clip();
    context.strokeStyle = "#14578a";
    context.fillStyle = "#14578a";
    context.lineWidth = 1.5;
    context.beginPath();
    let drawing = false;
    for (let i = 0; i < data.columns; ++i) {
      const value = data.values[i];
      const at = data.columnStart + i * data.columnStep + 0.5;
      const x = area.left + ((at - view.left) / (view.right - view.left)) * area.width;
      const y = area.top + ((high - value) / (high - low)) * area.height;
      const finite = Number.isFinite(value);
      if (finite && drawing) context.lineTo(x, y);
      else if (finite) context.moveTo(x, y);
      if (finite && data.columns < 200) context.fillRect(x - 1.5, y - 1.5, 3, 3);
      drawing = finite;
    }
    context.stroke();
    context.restore();
    this.#frame(context, area, { low: view.left, high: view.right, extent }, { low, high }, labels, true);
  }

  text(text) {
    const context = this.#begin();
    context.fillStyle = "#1c2529";
    context.font = FONT.replace("12px", "20px");
    context.fillText(text, MARGIN.left, MARGIN.top + 40);
  }

  /** Indices are at the middle of what stands for them; `values`: upwards are numbers, and where they are. */
  #frame(context, area, across, up, labels, values = false) {
    context.strokeStyle = context.fillStyle = "#1c2529";
    context.lineWidth = 1;
    context.strokeRect(area.left + 0.5, area.top + 0.5, area.width - 1, area.height - 1);
    const bottom = area.top + area.height;
    const indices = (along, wanted) =>
      numbers
        .ticks(along.low, along.high, wanted)
        .filter((tick) => Number.isInteger(tick) && tick >= 0 && tick < along.extent && tick + 0.5 <= along.high);
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const tick of indices(across, area.width / 80)) {
      const x = area.left + ((tick + 0.5 - across.low) / (across.high - across.low)) * area.width;
      context.fillRect(Math.round(x), bottom, 1, 5);
      context.fillText(numbers.number(tick, 12), x, bottom + 7);
    }
    context.fillText(labels.columns, area.left + area.width / 2, bottom + 24);
    context.textAlign = "right";
    context.textBaseline = "middle";
    const shift = values ? 0 : 0.5;
    for (const tick of values ? numbers.ticks(up.low, up.high, area.height / 50) : indices(up, area.height / 50)) {
      const y = bottom - ((tick + shift - up.low) / (up.high - up.low)) * area.height;
      context.fillRect(area.left - 5, Math.round(y), 5, 1);
      context.fillText(numbers.number(tick, values ? 5 : 12), area.left - 8, y);
    }
    context.save();
    context.translate(14, area.top + area.height / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(labels.rows, 0, 0);
    context.restore();
  }

  #bar(context, area, range, table) {
    const left = area.left + area.width + BAR.gap;
    for (let i = 0; i < area.height; ++i) {
      const at = 3 * Math.floor(255.999 * (1 - i / Math.max(1, area.height - 1)));
      context.fillStyle = `rgb(${table[at]},${table[at + 1]},${table[at + 2]})`;
      context.fillRect(left, area.top + i, BAR.width, 1.5);
    }
    context.strokeStyle = context.fillStyle = "#1c2529";
    context.strokeRect(left + 0.5, area.top + 0.5, BAR.width, area.height - 1);
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const tick of numbers.ticks(range.low, range.high, area.height / 60)) {
      const y = area.top + area.height * (1 - (tick - range.low) / (range.high - range.low));
      context.fillRect(left + BAR.width, Math.round(y), 4, 1);
      context.fillText(numbers.number(tick, 4), left + BAR.width + 6, y);
    }
  }
}
