from pylaunch.model.diagnosis.majority import Majority, majority, median


def test_the_answer_of_most_is_usual_though_no_half_gave_it_and_the_others_are_odd() -> None:
    assert majority({"n1": "a", "n2": "b", "n3": "c", "n4": "c"}).usual_hosts == ("n3", "n4")
    assert majority({"n1": "a", "n2": "b", "n3": "a"}) == Majority("a", ("n1", "n3"), (("b", ("n2",)),))


def test_a_tie_has_no_usual_answer_and_nobody_disagrees_where_all_say_the_same_or_nobody_is_asked() -> None:
    assert majority({"n1": "a", "n2": "b"}) == Majority(None, (), (("a", ("n1",)), ("b", ("n2",))))
    assert majority({"n1": "a", "n2": "a"}).odd == majority({}).odd == ()


def test_median_of_an_even_number_is_between_the_two_in_the_middle() -> None:
    assert median([4.0, 1.0, 3.0]) == 3.0
    assert median([4.0, 1.0, 3.0, 2.0]) == 2.5
