const { test, describe, it } = require("node:test");
const assert = require("node:assert");

const state = process.env.SHOP_STATE || "gold";
const add = (a, b) => (state === "regress" ? a - b : a + b);
const fresh = () => (state === "base" || state === "partial" ? 0 : 42);
const fresher = () => (state === "base" ? 0 : 42);

test("adds", () => assert.equal(add(1, 2), 3));
test("is new", () => assert.equal(fresh(), 42));
test("is newer: with spaces, ä", () => assert.equal(fresher(), 42));
test("is skipped", { skip: "not here" }, () => {});
test("is to do", { todo: "later" }, () => assert.equal(1, 2));
test("prints", () => console.log("some output"));
describe("a group", () => {
  it("adds in a group", () => assert.equal(add(2, 2), 4));
  it("is new in a group", () => assert.equal(fresh(), 42));
});
