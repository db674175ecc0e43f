// The live step of the running turn, which is not committed yet and is replaced as a whole.
import { Observable } from "./observable.js";

/** `step` is null between turns. */
export class LiveStep extends Observable {
  step = null;
  since = new Map(); // call id → when this page first saw it running
  outputs = new Map();

  /** A step may be there only for the approvals that background subagents ask for. */
  get running() {
    return this.step !== null && !this.step.idle;
  }

  /** True if a turn began or ended, or the queued messages changed. */
  replace(step) {
    const before = this.step;
    this.step = step && { ...step };
    const calls = step?.calls ?? [];
    this.outputs = new Map(calls.map((call) => [call.call_id, call.output ?? ""]));
    for (const { call_id } of calls) {
      if (!this.since.has(call_id)) this.since.set(call_id, Date.now());
    }
    const waiting = (each) => (each?.queued ?? []).map(({ id }) => id).join();
    return before?.turn_id !== step?.turn_id || waiting(before) !== waiting(step);
  }

  add(name, data) {
    if (name === "tool") {
      const output = (this.outputs.get(data.call_id) ?? "") + data.text;
      this.outputs.set(data.call_id, output);
      return;
    }
    this.step ??= { turn_id: "", text: "", reasoning: "", calls: [], queued: [] };
    if (name === "void") this.empty();
    else if (name === "retry") this.step.retry = data;
    else {
      this.step.retry = null; // the model answers
      this.step[name] = (this.step[name] ?? "") + data.text;
    }
  }

  empty() {
    if (!this.step) return;
    this.step.text = "";
    this.step.reasoning = "";
    this.step.retry = null;
  }

  finish(call_id) {
    this.outputs.delete(call_id);
    if (this.step) this.step.calls = this.step.calls.filter((call) => call.call_id !== call_id);
  }

  runs(call_id) {
    return this.outputs.has(call_id);
  }
}
