package example;

/** Uses {@link Calc}, and keeps a constant of it. */
public class Shop {
    public int most() {
        return Calc.LIMIT;
    }

    public int price(int n) {
        return Calc.add(n, 1);
    }
}
