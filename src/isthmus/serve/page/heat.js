// Heat over a picture: a smooth layer, red where a patch counts for the match, blue where it counts against it.

import { el } from "./dom.js";

const SIDE = 160; // pixels of the layer; it is stretched over the picture
const RAMP = [[24, 60, 150], [70, 130, 215], [176, 208, 240], [255, 236, 128], [255, 160, 40], [226, 50, 24], [150, 8, 40]];
const OPAQUE = 0.66; // of the strongest: the picture is seen through it

/** A canvas for rows of shares; `most` is the share of the deepest colour. */
export function layer(patches, most) {
  const made = el("canvas", { class: "heat", width: SIDE, height: SIDE, "aria-hidden": "true" });
  const pen = made.getContext("2d");
  const pixels = pen.createImageData(SIDE, SIDE);
  for (let at = 0; at < SIDE * SIDE; at += 1) {
    const strength = Math.max(-1, Math.min(1, between(patches, Math.floor(at / SIDE), at % SIDE) / most));
    pixels.data.set([...colour(strength), 255 * OPAQUE * Math.abs(strength) ** 0.85], 4 * at);
  }
  pen.putImageData(pixels, 0, 0);
  return made;
}

function colour(strength) {
  const place = (strength + 1) / 2 * (RAMP.length - 1);
  const low = Math.min(Math.floor(place), RAMP.length - 2);
  return RAMP[low].map((channel, at) => channel + (RAMP[low + 1][at] - channel) * (place - low));
}

/** The share at a pixel, between the centres of the patches around it. */
function between(patches, row, column) {
  const [top, down] = around(row, patches.length);
  const [left, right] = around(column, patches[0].length);
  const across = (line) => line[left.at] * left.weight + line[right.at] * right.weight;
  return across(patches[top.at]) * top.weight + across(patches[down.at]) * down.weight;
}

function around(pixel, count) {
  const place = Math.max(0, Math.min(count - 1, (pixel + 0.5) / SIDE * count - 0.5));
  const low = Math.min(Math.floor(place), count - 1);
  const part = (place - low) ** 2 * (3 - 2 * (place - low)); // smooth at the centres
  return [{ at: low, weight: 1 - part }, { at: Math.min(low + 1, count - 1), weight: part }];
}

/** The strongest share, and where the strong patches have their centre: thirds from the top and from the left, 0 to 2. */
export function hottest(patches) {
  const all = patches.flatMap((line, row) => line.map((share, column) => ({ share, row, column })));
  const share = Math.max(...all.map((one) => one.share));
  const strong = all.filter((one) => (share > 0 ? one.share >= share / 2 : one.share === share));
  const sum = strong.reduce((total, one) => total + Math.abs(one.share), 0) || 1;
  const third = (name, count) => Math.min(2, Math.floor(3 * strong.reduce((total, one) => total + Math.abs(one.share) * (one[name] + 0.5), 0) / sum / count));
  return { share, down: third("row", patches.length), across: third("column", patches[0].length) };
}
