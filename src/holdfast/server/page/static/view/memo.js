// A component that is drawn again only when its props changed.
import { Component, html } from "../vendor/preact-htm.module.js";

export function memo(View) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const names = Object.keys(next);
      if (names.length !== Object.keys(this.props).length) return true;
      return names.some((name) => name !== "children" && next[name] !== this.props[name]);
    }

    render(given) {
      return html`<${View} ...${given} />`;
    }
  };
}
